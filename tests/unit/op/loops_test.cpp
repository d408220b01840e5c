#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "op/loops_cpu.h"
#include "tests/unit/op/every_isa.h"

namespace windlass {
namespace {

// f32 patterns that matter to rounding: every upper half with lower halves around the ties.
std::vector<uint32_t> boundary_patterns() {
    std::vector<uint32_t> patterns;
    for (uint32_t hi = 0; hi < 0x10000u; ++hi) {
        for (const uint32_t lo : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
            patterns.push_back(hi << 16 | lo);
    }
    return patterns;
}

TEST(ConvertLoops, NarrowAsTheScalarDoes) {
    const std::vector<uint32_t> patterns = boundary_patterns();
    const auto n = static_cast<int64_t>(patterns.size());
    on_every_isa([&] {
        std::vector<uint16_t> got(patterns.size());
        convert_loops().narrow(reinterpret_cast<const float*>(patterns.data()), got.data(), n);
        for (size_t i = 0; i < got.size(); ++i) {
            ASSERT_EQ(got[i], to_bf16(std::bit_cast<float>(patterns[i])).bits) << patterns[i];
        }
    });
}

TEST(ConvertLoops, WidenEveryNumber) {
    std::vector<uint16_t> all(0x10000);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
    on_every_isa([&] {
        std::vector<uint32_t> got(all.size());
        convert_loops().widen(all.data(), reinterpret_cast<float*>(got.data()), static_cast<int64_t>(all.size()));
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<uint32_t>(i) << 16);
    });
}

TEST(ConvertLoops, JoinMastersExactly) {
    const std::vector<uint32_t> masters = boundary_patterns();
    std::vector<uint16_t> high;
    std::vector<int16_t> low;
    for (const uint32_t master : masters) {
        high.push_back(split_master(master).hi);
        low.push_back(split_master(master).lo);
    }
    on_every_isa([&] {
        std::vector<uint32_t> got(masters.size());
        convert_loops().join(high.data(), low.data(), reinterpret_cast<float*>(got.data()),
                             static_cast<int64_t>(masters.size()));
        EXPECT_EQ(got, masters);
    });
}

TEST(ConvertLoops, AddRoundsTheSumOnce) {
    const int64_t n = 77;  // not a multiple of any vector
    on_every_isa([&] {
        std::vector<float> from(n);
        std::vector<uint16_t> to(n), want(n);
        for (size_t i = 0; i < from.size(); ++i) {
            from[i] = std::sin(static_cast<float>(i)) * 0.01f;
            to[i] = to_bf16(std::cos(static_cast<float>(i))).bits;
            want[i] = to_bf16(to_float(bf16{to[i]}) + from[i]).bits;
        }
        convert_loops().add_narrow(from.data(), to.data(), n);
        EXPECT_EQ(to, want);
    });
}

// A matrix of 3 x 600 with gaps of 40 between the rows, which nobody may touch.
struct Strided {
    static constexpr int64_t kRows = 3, kCols = 600, kStride = 640;
    std::vector<uint16_t> numbers = std::vector<uint16_t>(kRows * kStride, to_bf16(7.0f).bits);
    Tensor view() { return {DType::bf16, {kRows, kCols}, kStride, numbers.data()}; }
    float at(int64_t row, int64_t col) const {
        return to_float(bf16{numbers[static_cast<size_t>(row * kStride + col)]});
    }
};

// y = 2 a + b
void twice_and(const float* const* in, float* const* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[0][i] = 2 * in[0][i] + in[1][i];
}

TEST(Pointwise, KeepsToRowsWithGaps) {
    Strided a, b, y;
    for (int64_t i = 0; i < Strided::kRows * Strided::kCols; ++i) {
        const auto at = static_cast<size_t>(i / Strided::kCols * Strided::kStride + i % Strided::kCols);
        a.numbers[at] = to_bf16(static_cast<float>(i % 7)).bits;
        b.numbers[at] = to_bf16(static_cast<float>(i % 5)).bits;
    }
    Team team(2);
    const std::array in = {a.view(), b.view()};
    const Output out{y.view()};
    run_pointwise(twice_and, in, {&out, 1}, team);
    for (int64_t row = 0; row < Strided::kRows; ++row) {
        for (int64_t col = 0; col < Strided::kStride; ++col) {
            const int64_t i = row * Strided::kCols + col;
            const auto want = static_cast<float>(2 * (i % 7) + i % 5);
            ASSERT_EQ(y.at(row, col), col < Strided::kCols ? want : 7.0f) << row << ", " << col;
        }
    }
}

TEST(Pointwise, AnAbsentInputIsZeroAndAnAbsentOutputIsNotWritten) {
    Strided a, y;
    Team team(1);
    const std::array in = {Tensor{}, a.view()};
    const std::array out = {Output{y.view(), true}, Output{}};
    const auto both = [](const float* const* from, float* const* to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) to[0][i] = to[1][i] = from[0][i] + from[1][i];
    };
    run_pointwise(both, in, out, team);
    EXPECT_EQ(y.at(0, 0), 14.0f);  // 7 was there
    EXPECT_EQ(y.at(2, 599), 14.0f);
    EXPECT_EQ(y.at(0, 600), 7.0f);
}

TEST(Scratch, GivesAlignedPiecesAndNoMoreThanItHas) {
    alignas(64) std::array<std::byte, 192> bytes{};
    Scratch scratch(bytes);
    float* const first = scratch.floats(3);
    float* const second = scratch.floats(20);
    EXPECT_EQ(second - first, 16);
    EXPECT_EQ(float_bytes(3) + float_bytes(20), 192);
    EXPECT_DEATH(scratch.floats(1), "64 bytes of scratch, 0 are left");
}

TEST(VectorGradient, HasAtMostSoManyPartialSums) {
    EXPECT_EQ(VectorGradient::chunk_rows(1), 64);
    EXPECT_EQ(VectorGradient::chunk_rows(64 * 256), 64);
    EXPECT_EQ(VectorGradient::chunk_rows(64 * 256 + 1), 65);
    EXPECT_LE(VectorGradient::bytes(int64_t{1} << 24, 1024), 256 * 1024 * 4);
}

TEST(VectorGradient, TargetsOfAnotherTypeOrSizeAreRefused) {
    Scratch scratch({});
    EXPECT_FALSE(VectorGradient({}, 8, 8, scratch).wanted());
    std::vector<float> numbers(8);
    EXPECT_DEATH(VectorGradient({{DType::bf16, {8}, numbers.data()}}, 8, 8, scratch), "accumulates in f32");
    EXPECT_DEATH(VectorGradient({{DType::f32, {4}, numbers.data()}}, 8, 8, scratch), "a vector of 8");
}

}  // namespace
}  // namespace windlass
