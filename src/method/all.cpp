#include <array>

#include "method/methods.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 4> kAll = {&kAdamw, &kZerothOrder, &kLomo, &kLsp};
    return kAll;
}

}  // namespace windlass
