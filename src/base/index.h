// index.h: subscripts of standard containers, which are unsigned, from indices of ours, which are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace windlass {

constexpr size_t at(int64_t index) {
    return static_cast<size_t>(index);
}
template <typename Name>
requires std::is_enum_v<Name>
constexpr size_t at(Name name) {
    return static_cast<size_t>(name);
}

}  // namespace windlass
