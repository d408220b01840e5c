// NormalFloat4: its levels and what numbers are rounded to, as another library has them; blocks, scales and their
// bounds.
#include "tensor/nf4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "tensor/dtype.h"
#include "tests/place.h"

namespace windlass {
namespace {

using Bytes = std::vector<std::byte>;

Json nf4_golden() {
    const std::string path = source_dir() + "/tests/golden/nf4.json";
    return Json::parse(read_text(real_files(), path, 1 << 20));
}

std::vector<float> floats_of(const Json& bits) {
    std::vector<float> numbers;
    for (const Json& each : bits) numbers.push_back(std::bit_cast<float>(each.get<uint32_t>()));
    return numbers;
}

Bytes encoded(std::span<const float> numbers, const Nf4Scales& scales = kNf4Scales) {
    Bytes bytes(static_cast<size_t>(nf4_bytes(std::ssize(numbers))));
    encode_nf4(numbers, scales, bytes);
    return bytes;
}

std::vector<float> decoded(const Bytes& bytes, int64_t first, int64_t count) {
    std::vector<float> numbers(static_cast<size_t>(count));
    decode_nf4(bytes, first, numbers);
    return numbers;
}

int code_of(const Bytes& bytes, int64_t index) {
    const auto pair =
        static_cast<int>(bytes[static_cast<size_t>(index / kNf4Block * kNf4BlockBytes + index % kNf4Block / 2)]);
    return index % 2 == 0 ? pair & 0xf : pair >> 4;
}

float scale_of(const Bytes& bytes, int64_t index) {
    bf16 scale;
    std::memcpy(&scale.bits, &bytes[static_cast<size_t>(index / kNf4Block * kNf4BlockBytes + kNf4CodeBytes)], 2);
    return to_float(scale);
}

std::vector<float> some_numbers(int64_t count, float size) {
    Random random(7, RandomStream::test);
    std::vector<float> numbers(static_cast<size_t>(count));
    for (float& number : numbers) number = size * random.normal();
    return numbers;
}

TEST(Nf4, HasTheLevelsOfAnotherLibrary) {
    const std::vector<float> levels = floats_of(nf4_golden()["levels"]);
    ASSERT_EQ(levels.size(), 16u);
    for (size_t code = 0; code < 16; ++code)
        EXPECT_EQ(std::bit_cast<uint32_t>(kNf4Levels[code]), std::bit_cast<uint32_t>(levels[code])) << code;
    EXPECT_EQ(kNf4Levels[kNf4Zero], 0.0f);
}

// Blocks whose largest magnitude is a power of two: scales are equal, and quotients are exact in both.
TEST(Nf4, RoundsAsAnotherLibraryDoesWhereScalesAreEqual) {
    const Json exact = nf4_golden()["exact"];
    const std::vector<float> numbers = floats_of(exact["numbers"]);
    const Bytes bytes = encoded(numbers);
    ASSERT_EQ(exact["codes"].size(), numbers.size());
    ASSERT_GE(numbers.size(), 1000u);
    for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        const size_t at = static_cast<size_t>(i);
        EXPECT_EQ(scale_of(bytes, i), floats_of(exact["scales"])[static_cast<size_t>(i / kNf4Block)]);
        EXPECT_EQ(code_of(bytes, i), exact["codes"][at].get<int>()) << i << ": " << numbers[at];
    }
}

// Elsewhere our scale is larger by up to a part in 128, and a code differs only where that moves the number over the
// border between two neighbours.
TEST(Nf4, RoundsAsAnotherLibraryDoesButForItsScales) {
    const Json any = nf4_golden()["any"];
    const std::vector<float> numbers = floats_of(any["numbers"]), scales = floats_of(any["scales"]);
    const Bytes bytes = encoded(numbers);
    int64_t moved = 0;
    for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        const float theirs = scales[static_cast<size_t>(i / kNf4Block)], ours = scale_of(bytes, i);
        ASSERT_GE(ours, theirs);
        ASSERT_LE(ours, theirs * (1 + 0x1p-7f));
        const int code = code_of(bytes, i), other = any["codes"][static_cast<size_t>(i)].get<int>();
        if (code == other) continue;
        ++moved;
        ASSERT_EQ(std::abs(code - other), 1);
        const double border = (double{kNf4Levels[code]} + double{kNf4Levels[other]}) / 2;
        const double number = double{numbers[static_cast<size_t>(i)]};
        EXPECT_LE(std::fabs(number / theirs - border), std::fabs(border) * 0x1p-7) << i;
    }
    EXPECT_LT(moved, std::ssize(numbers) / 50) << "a part in 256 of the scale moves few";
}

// Half the widest distance of neighbours is 0.152, between -1 and -0.696.
TEST(Nf4, IsOffByLessThanHalfTheDistanceOfLevels) {
    const std::vector<float> numbers = some_numbers(64 * 50, 0.02f);
    const Bytes bytes = encoded(numbers);
    const std::vector<float> back = decoded(bytes, 0, std::ssize(numbers));
    for (int64_t i = 0; i < std::ssize(numbers); ++i) {
        const size_t at = static_cast<size_t>(i);
        const float scale = scale_of(bytes, i);
        EXPECT_LE(std::fabs(back[at] - numbers[at]), 0.1521f * scale) << i;
        // The nearest of all sixteen: nothing is nearer by more than products and quotients are rounded.
        for (const float level : kNf4Levels)
            EXPECT_LE(std::fabs(back[at] - numbers[at]), std::fabs(level * scale - numbers[at]) + scale * 0x1p-22f);
    }
}

TEST(Nf4, HoldsLargestNumbersAsTheScale) {
    const std::vector<float> numbers = some_numbers(64 * 50, 3.0f);
    const Bytes bytes = encoded(numbers);
    for (int64_t block = 0; block < 50; ++block) {
        const auto first = numbers.begin() + block * kNf4Block;
        const float largest =
            *std::max_element(first, first + kNf4Block, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
        const auto at = static_cast<int64_t>(std::find(first, first + kNf4Block, largest) - numbers.begin());
        EXPECT_EQ(code_of(bytes, at), largest < 0 ? 0 : 15);
        EXPECT_GE(scale_of(bytes, at), std::fabs(largest)) << "rounded up";
    }
}

TEST(Nf4, BlocksOfZerosAndNegativeZerosAreZeros) {
    std::vector<float> numbers(128, -0.0f);
    numbers[100] = 1.0f;
    const Bytes bytes = encoded(numbers);
    EXPECT_EQ(scale_of(bytes, 0), 0.0f);
    for (const float number : decoded(bytes, 0, 64)) EXPECT_EQ(std::bit_cast<uint32_t>(number), 0u);
    for (int64_t i = 64; i < 128; ++i) EXPECT_EQ(code_of(bytes, i), i == 100 ? 15 : kNf4Zero);
    for (const float number : decoded(bytes, 64, 36)) EXPECT_EQ(std::bit_cast<uint32_t>(number), 0u);
}

TEST(Nf4, WhatIsMissingInTheLastBlockIsZero) {
    const std::vector<float> numbers = some_numbers(64 + 5, 1.0f);
    const Bytes bytes = encoded(numbers);
    ASSERT_EQ(bytes.size(), 68u);
    for (int64_t i = 69; i < 128; ++i) EXPECT_EQ(code_of(bytes, i), kNf4Zero) << i;
    std::vector<float> filled = numbers;
    filled.resize(128);
    EXPECT_EQ(encoded(filled), bytes);
}

// As far as f32 can tell: of every two neighbours.
TEST(Nf4, HalfwayIsTheLowerLevel) {
    for (int code = 0; code + 1 < 16; ++code) {
        const auto border = static_cast<float>((double{kNf4Levels[code]} + double{kNf4Levels[code + 1]}) / 2);
        const Bytes bytes = encoded(std::vector<float>{1.0f, border, std::nextafter(border, 1.0f)});
        EXPECT_EQ(scale_of(bytes, 0), 1.0f);
        EXPECT_EQ(code_of(bytes, 1), code);
        EXPECT_EQ(code_of(bytes, 2), code + 1);
    }
}

TEST(Nf4, ReadsFromAnywhereInABlock) {
    const std::vector<float> numbers = some_numbers(300, 1.0f);
    const Bytes bytes = encoded(numbers);
    const std::vector<float> all = decoded(bytes, 0, 300);
    for (const int64_t first : {0, 1, 63, 64, 65, 130, 299}) {
        for (const int64_t count : {0, 1, 2, 63, 64, 65, 170}) {
            if (first + count > 300) continue;
            const auto from = all.begin() + first;
            EXPECT_EQ(decoded(bytes, first, count), std::vector<float>(from, from + count)) << first << " " << count;
        }
    }
    EXPECT_DEATH(decoded(bytes, 300, 21), "are not in 170 bytes");
}

// What was decoded, and rounded to the type of a file.
template <typename Round>
void expect_stays(std::vector<float> numbers, const Nf4Scales& scales, Round round) {
    const Bytes bytes = encoded(numbers, scales);
    std::vector<float> back = decoded(bytes, 0, std::ssize(numbers));
    for (float& number : back) {
        number = round(number);
        ASSERT_TRUE(std::isfinite(number));
    }
    EXPECT_EQ(encoded(back, scales), bytes);
}

TEST(Nf4, WhatWasDecodedAndSavedIsEncodedAsItWas) {
    const auto f32 = [](float x) { return x; };
    const auto narrow = [](float x) { return to_float(to_bf16(x)); };
    const auto half = [](float x) { return half_to_float(float_to_half(x)); };
    for (const float size : {0x1p-149f, 0x1p-135f, 0x1p-127f, 0x1p-125f, 1e-30f, 1e-6f, 0.02f, 1.0f, 0x1p120f}) {
        expect_stays(some_numbers(64 * 20 + 3, size), kNf4Scales, f32);
        expect_stays(some_numbers(64 * 20 + 3, size), kNf4Scales, narrow);
    }
    for (const float size : {0x1p-24f, 0x1p-22f, 0x1p-19f, 0x1p-17f, 0x1p-14f, 0.02f, 1.0f, 10'000.0f}) {
        std::vector<float> numbers = some_numbers(64 * 20 + 3, size);
        for (float& number : numbers) number = half(number);
        expect_stays(numbers, kNf4HalfScales, half);
        expect_stays(numbers, kNf4HalfScales, f32);
    }
}

// Rounded up, the largest numbers of a type would be none of it.
TEST(Nf4, ScalesStayNumbersOfTheFilesType) {
    expect_stays({65504.0f, -30000.0f}, kNf4HalfScales, [](float x) { return half_to_float(float_to_half(x)); });
    expect_stays({-std::numeric_limits<float>::max(), 1e38f}, kNf4Scales, [](float x) { return x; });
    EXPECT_EQ(scale_of(encoded(std::vector<float>{65504.0f}, kNf4HalfScales), 0), 65280.0f);
    EXPECT_EQ(scale_of(encoded(std::vector<float>{0x1p-24f}, kNf4HalfScales), 0), 0.0f) << "nothing is left of it";
}

}  // namespace
}  // namespace windlass
