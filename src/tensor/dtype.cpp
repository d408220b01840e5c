#include "tensor/dtype.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "tensor/nf4.h"

namespace windlass {
namespace {

struct DTypeInfo {
    std::string_view name;
    int64_t bytes;
};

// In the order of the enumeration.
constexpr std::array<DTypeInfo, 12> kInfo = {{{"f32", 4},
                                              {"bf16", 2},
                                              {"f16", 2},
                                              {"i64", 8},
                                              {"i32", 4},
                                              {"i16", 2},
                                              {"u8", 1},
                                              {"i8", 1},
                                              {"bool", 1},
                                              {"f64", 8},
                                              {"f8_e4m3", 1},
                                              {"nf4", 0}}};

}  // namespace

int64_t dtype_bytes(DType dtype) {
    WINDLASS_CHECK(dtype != DType::nf4, "no number of nf4 lies alone");
    return kInfo[static_cast<size_t>(dtype)].bytes;
}

int64_t stored_bytes(DType dtype, int64_t count) {
    return dtype == DType::nf4 ? nf4_bytes(count) : count * dtype_bytes(dtype);
}

std::string_view dtype_name(DType dtype) {
    return kInfo[static_cast<size_t>(dtype)].name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
    for (size_t i = 0; i < kInfo.size(); ++i) {
        if (kInfo[i].name == name) return static_cast<DType>(i);
    }
    return std::nullopt;
}

float half_to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = bits >> 10 & 0x1fu;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
}

uint16_t float_to_half(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000u);
    const uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (magnitude < 0x38800000u) {  // subnormal: the addition rounds to multiples of 2^-24
        const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<uint16_t>(sign | (rounded - 0x38000000u) >> 13);
}

}  // namespace windlass
