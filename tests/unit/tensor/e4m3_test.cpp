// Numbers of 8 bits: every one, and what becomes of others, as another library has it; and their scales.
#include "tensor/e4m3.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/file.h"
#include "base/json.h"
#include "tensor/dtype.h"
#include "tests/place.h"

namespace windlass {
namespace {

Json e4m3_golden() {
    const std::string path = source_dir() + "/tests/golden/e4m3.json";
    return Json::parse(read_text(real_files(), path, 1 << 20));
}

TEST(E4m3, MeansWhatAnotherLibrarySays) {
    const Json values = e4m3_golden()["decoded"];
    ASSERT_EQ(values.size(), 256u);
    for (size_t bits = 0; bits < 256; ++bits) {
        const float value = e4m3_to_float(static_cast<uint8_t>(bits));
        if (values[bits].is_null()) {
            EXPECT_TRUE(std::isnan(value)) << bits;
        } else {
            EXPECT_EQ(std::bit_cast<uint32_t>(value), values[bits].get<uint32_t>()) << bits;
        }
        EXPECT_EQ(float_to_e4m3(value), bits) << "it comes back";
    }
}

TEST(E4m3, RoundsAsAnotherLibraryDoes) {
    const Json pairs = e4m3_golden()["encoded"];
    ASSERT_GT(pairs.size(), 1000u);
    for (const Json& pair : pairs) {
        const float x = std::bit_cast<float>(pair[0].get<uint32_t>());
        EXPECT_EQ(float_to_e4m3(x), pair[1].get<int>()) << x;
    }
}

TEST(E4m3, NanStaysNanAndWhatIsBeyondIsTheLargest) {
    for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu})
        EXPECT_EQ(float_to_e4m3(std::bit_cast<float>(nan)) & 0x7f, 0x7f);
    EXPECT_EQ(e4m3_to_float(float_to_e4m3(1e30f)), kE4m3Max);
    EXPECT_EQ(e4m3_to_float(float_to_e4m3(-std::numeric_limits<float>::infinity())), -kE4m3Max);
}

// With its scale the largest number lies in [112, 224), so it may double; and no scale makes a value that bf16 has not.
TEST(E4m3, ScalesLeaveRoomToDouble) {
    for (float largest = 0x1p-100f; largest < 0x1p100f; largest *= 1.0625f) {
        const int exponent = e4m3_scale_exponent(largest, kE4m3ScaleMin, kE4m3ScaleMax);
        EXPECT_GE(largest * power_of_two(-exponent), 112.0f) << largest;
        EXPECT_LT(largest * power_of_two(-exponent), 224.0f) << largest;
    }
    EXPECT_EQ(e4m3_scale_exponent(0, kE4m3ScaleMin, kE4m3ScaleMax), 0);
    EXPECT_EQ(e4m3_scale_exponent(1e-40f, kE4m3ScaleMin, kE4m3ScaleMax), kE4m3ScaleMin);
    EXPECT_EQ(e4m3_scale_exponent(std::numeric_limits<float>::max(), kE4m3ScaleMin, kE4m3ScaleMax), kE4m3ScaleMax);
}

TEST(E4m3, EveryValueOfEveryScaleIsOneOfBf16) {
    for (int exponent = kE4m3ScaleMin; exponent <= kE4m3ScaleMax; ++exponent) {
        for (int bits = 0; bits < 0x7f; ++bits) {
            const float value = e4m3_to_float(static_cast<uint8_t>(bits)) * power_of_two(exponent);
            ASSERT_TRUE(value == 0 || std::isnormal(value)) << exponent << " " << bits;
            ASSERT_EQ(to_float(to_bf16(value)), value);
            ASSERT_EQ(float_to_e4m3(value * power_of_two(-exponent)), bits);
            if (exponent < kE4m3HalfScaleMin || exponent > kE4m3HalfScaleMax) continue;
            ASSERT_EQ(half_to_float(float_to_half(value)), value);
        }
    }
}

}  // namespace
}  // namespace windlass
