#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace windlass {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;

bool is_nan(uint32_t u) {
    return (u & 0x7fffffffu) > kInfinity;
}

TEST(DType, NamesGoBothWays) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::u8,
                              DType::i8, DType::boolean, DType::f64, DType::f8_e4m3}) {
        EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
        EXPECT_GT(dtype_bytes(dtype), 0);
    }
    EXPECT_EQ(dtype_from_name(dtype_name(DType::nf4)), DType::nf4);
    EXPECT_EQ(dtype_from_name("f8"), std::nullopt);
    EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(DType, StoresNumbersInBytesOfTheirOwnOrInBlocks) {
    EXPECT_EQ(stored_bytes(DType::f32, 5), 20);
    EXPECT_EQ(stored_bytes(DType::f8_e4m3, 65), 65);
    for (const auto& [count, bytes] : {std::pair{0, 0}, {1, 34}, {64, 34}, {65, 68}, {1 << 22, (1 << 16) * 34}})
        EXPECT_EQ(stored_bytes(DType::nf4, count), bytes) << count;
    EXPECT_DEATH(dtype_bytes(DType::nf4), "no number of nf4 lies alone");
}

// An odd multiplier visits as many different patterns as it is given counters.
constexpr uint32_t scattered(uint32_t i) {
    return i * 0x9e3779b1u;
}

// Patterns around which a carry or a sign could go wrong: every upper half with the lower halves next to the ties.
template <typename Body>
void for_boundaries(Body body) {
    for (uint32_t hi = 0; hi < 0x10000u; ++hi) {
        for (const uint32_t lo : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) body(hi << 16 | lo);
    }
}

TEST(SplitMaster, JoinsToTheSameBits) {
    uint64_t wrong = 0;
    const auto check = [&](uint32_t u) { wrong += join_master(split_master(u)) != u; };
    for (uint32_t i = 0; i < 1u << 24; ++i) check(scattered(i));
    for_boundaries(check);
    EXPECT_EQ(wrong, 0u);
}

// Both ways round: no two masters share their halves, and no pair of halves is without a master.
TEST(SplitMaster, EveryPairOfHalvesIsAMaster) {
    uint64_t wrong = 0;
    const auto check = [&](uint32_t u) {
        const Split halves{static_cast<uint16_t>(u >> 16), static_cast<int16_t>(static_cast<uint16_t>(u))};
        const Split again = split_master(join_master(halves));
        wrong += again.hi != halves.hi || again.lo != halves.lo;
    };
    for (uint32_t i = 0; i < 1u << 24; ++i) check(scattered(i));
    for_boundaries(check);
    EXPECT_EQ(wrong, 0u);
}

// No bf16 number is nearer to the master than its upper half; of two equally near, it is the larger in magnitude.
TEST(SplitMaster, UpperHalfIsTheNearestBf16) {
    uint64_t wrong = 0;
    const auto check = [&](uint32_t u) {
        if ((u & 0x7fffffffu) >= 0x7f7f8000u) return;  // rounds to infinity, or is no number
        const double x = std::bit_cast<float>(u);
        const uint16_t down = static_cast<uint16_t>(u >> 16), up = static_cast<uint16_t>(down + 1);
        const double below = std::abs(to_float(bf16{down}) - x), above = std::abs(to_float(bf16{up}) - x);
        wrong += split_master(u).hi != (below < above ? down : up);
    };
    for (uint32_t i = 0; i < 1u << 22; ++i) check(scattered(i));
    for_boundaries(check);
    EXPECT_EQ(wrong, 0u);
}

TEST(Bf16, EveryNumberComesBack) {
    for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
        const float x = to_float(bf16{static_cast<uint16_t>(bits)});
        const uint16_t back = to_bf16(x).bits;
        if (std::isnan(x)) {
            EXPECT_EQ(back, bits | 0x40u);  // the same NaN, quiet
        } else {
            ASSERT_EQ(back, bits);
        }
    }
}

TEST(Bf16, RoundsToNearestTiesToEven) {
    for (uint32_t bits = 0; bits < 0x7f80u; ++bits) {  // every finite number and its upper neighbour
        const uint32_t low = bits << 16, tie = low | 0x8000u;
        const auto rounded = [](uint32_t u) { return to_bf16(std::bit_cast<float>(u)).bits; };
        ASSERT_EQ(rounded(tie - 1), bits);
        ASSERT_EQ(rounded(tie), bits + (bits & 1u));
        ASSERT_EQ(rounded(tie + 1), bits + 1);
        ASSERT_EQ(rounded((tie + 1) | 0x80000000u), (bits + 1) | 0x8000u);
    }
}

TEST(Bf16, NanStaysNan) {
    for (const uint32_t u : {kInfinity + 1, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7f80ffffu}) {
        EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(u))))) << u;
    }
}

TEST(Half, EveryNumberComesBack) {
    for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
        const float x = half_to_float(static_cast<uint16_t>(bits));
        const uint16_t back = float_to_half(x);
        if ((bits & 0x7fffu) > 0x7c00u) {
            ASSERT_TRUE(is_nan(std::bit_cast<uint32_t>(x)));
            ASSERT_GT(back & 0x7fffu, 0x7c00u);
            ASSERT_EQ(back & 0x8000u, bits & 0x8000u);
        } else {
            ASSERT_EQ(back, bits);
        }
    }
}

// The value by its definition: (-1)^s 2^(e - 15) 1.m, or 2^-14 0.m where e = 0.
TEST(Half, MeansWhatTheStandardSays) {
    for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
        const int exponent = static_cast<int>(bits >> 10);
        const double mantissa = static_cast<double>(bits & 0x3ffu) / 1024;
        const double value = exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1 + mantissa, exponent - 15);
        ASSERT_EQ(half_to_float(static_cast<uint16_t>(bits)), value);
        ASSERT_EQ(half_to_float(static_cast<uint16_t>(bits | 0x8000u)), -value);
    }
}

// Between every two neighbours, subnormals included; the one above 65504 is where infinity begins.
TEST(Half, RoundsToNearestTiesToEven) {
    for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
        const double low = half_to_float(static_cast<uint16_t>(bits));
        const double high = bits == 0x7bffu ? 65536.0 : half_to_float(static_cast<uint16_t>(bits + 1));
        const auto tie = static_cast<float>((low + high) / 2);  // exact: one bit more than a half has
        ASSERT_EQ(float_to_half(std::nextafter(tie, 0.0f)), bits);
        ASSERT_EQ(float_to_half(tie), bits + (bits & 1u));
        ASSERT_EQ(float_to_half(std::nextafter(tie, 1e6f)), bits + 1);
        ASSERT_EQ(float_to_half(-tie), (bits + (bits & 1u)) | 0x8000u);
    }
}

TEST(Half, LargeNumbersAreInfinite) {
    EXPECT_EQ(float_to_half(1e30f), 0x7c00u);
    EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xfc00u);
    EXPECT_EQ(half_to_float(0x7c00u), std::numeric_limits<float>::infinity());
    EXPECT_EQ(float_to_half(1e-30f), 0x0000u);
    EXPECT_EQ(float_to_half(-0.0f), 0x8000u);
}

}  // namespace
}  // namespace windlass
