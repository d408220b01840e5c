// math.h: integer arithmetic that says what it means and refuses to overflow.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace windlass {

template <std::integral T>
constexpr T div_up(T a, T b) {
    return (a + b - 1) / b;
}

template <std::integral T>
constexpr T round_up(T a, T multiple) {
    return div_up(a, multiple) * multiple;
}

template <std::integral T>
constexpr T round_down(T a, T multiple) {
    return a / multiple * multiple;
}

// a / b where b must divide a.
template <std::integral T>
T div_exact(T a, T b) {
    WINDLASS_CHECK(b != 0 && a % b == 0, "{} is not a multiple of {}", a, b);
    return a / b;
}

// The product, or nothing when it does not fit: for sizes that come from files.
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
    return product;
}

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
    return sum;
}

template <std::integral To, std::integral From>
To narrow(From value) {
    WINDLASS_CHECK(std::in_range<To>(value), "{} does not fit the target type", value);
    return static_cast<To>(value);
}

}  // namespace windlass
