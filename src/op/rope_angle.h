// rope_angle.h: the cosine and sine of an angle as plain arithmetic in double precision, for loops that are compiled
// per instruction set and for kernels of devices: everything has internal linkage.
#pragma once

#include <cstdint>

namespace windlass {
namespace {

struct Angle {
    double cos, sin;
};

// cos and sin to 1e-11 for |x| < 2^20: x = q pi/2 + r with |r| <= pi/4, in three steps so that the first two products
// are exact; series in r; then the quadrant q swaps and negates.
constexpr Angle cos_sin(double x) {
    constexpr double kToInteger = 0x1.8p52;                        // adding it leaves round(x) in the low bits
    const double shifted = x * 0x1.45f306dc9c883p-1 + kToInteger;  // 2 / pi
    const double q = shifted - kToInteger;
    double r = x - q * 0x1.921fb544p0;  // pi / 2: 31 bits, 32 more, and the rest
    r = r - q * 0x1.0b4611a6p-34;
    r = r - q * 0x1.3198a2e037073p-69;
    const double s = r * r;
    double sin = -1.0 / 39916800;
    sin = sin * s + 1.0 / 362880;
    sin = sin * s - 1.0 / 5040;
    sin = sin * s + 1.0 / 120;
    sin = sin * s - 1.0 / 6;
    sin = sin * s * r + r;
    double cos = 1.0 / 479001600;
    cos = cos * s - 1.0 / 3628800;
    cos = cos * s + 1.0 / 40320;
    cos = cos * s - 1.0 / 720;
    cos = cos * s + 1.0 / 24;
    cos = cos * s - 0.5;
    cos = cos * s + 1.0;
    const uint64_t quadrant = __builtin_bit_cast(uint64_t, shifted);
    const double swapped_cos = (quadrant & 1) != 0 ? sin : cos;
    const double swapped_sin = (quadrant & 1) != 0 ? cos : sin;
    return {((quadrant + 1) & 2) != 0 ? -swapped_cos : swapped_cos, (quadrant & 2) != 0 ? -swapped_sin : swapped_sin};
}

}  // namespace
}  // namespace windlass
