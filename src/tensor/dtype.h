// dtype.h: the element types that tensors and files hold.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace windlass {

// f8_e4m3 (e4m3.h) and nf4 (nf4.h) are types that weights are kept in; there are no model files of them.
enum class DType : uint8_t { f32, bf16, f16, i64, i32, i16, u8, i8, boolean, f64, f8_e4m3, nf4 };

// Bytes of one number. nf4 has no such thing: a bug.
int64_t dtype_bytes(DType dtype);
// Bytes of `count` numbers, one after the other; of nf4, in blocks that begin with the first.
int64_t stored_bytes(DType dtype, int64_t count);
// "f32", "bf16", ...: as printed and as written in configuration.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

// A bf16 number as bits; conversions round to nearest, ties to even, and keep NaN a NaN.
struct bf16 {
    uint16_t bits = 0;
};

inline float to_float(bf16 x) {
    return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

inline bf16 to_bf16(float x) {
    const uint32_t u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
    return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

// IEEE half precision, by bits.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float x);

// The split master: u = (hi << 16) + sign-extended lo, modulo 2^32, a bijection on all fp32 patterns; hi is the value
// rounded to nearest, ties away, as a bf16. CUDA kernels call these two, those of the CPU tensor/master_vector.h.
struct Split {
    uint16_t hi;
    int16_t lo;
};
constexpr Split split_master(uint32_t u) {
    const uint32_t hi = (u + 0x8000u) >> 16 & 0xffffu;
    return {static_cast<uint16_t>(hi), static_cast<int16_t>(static_cast<uint16_t>(u - (hi << 16)))};
}
constexpr uint32_t join_master(Split s) {
    return (static_cast<uint32_t>(s.hi) << 16) + static_cast<uint32_t>(static_cast<int32_t>(s.lo));
}

}  // namespace windlass
