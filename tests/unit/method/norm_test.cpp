// The exact global norm: equal to a sum in higher precision, and the same bits for any team.
#include "method/norm.h"

#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "schedule/numerics.h"

namespace windlass {
namespace {

std::vector<float> values_of(int64_t count, uint64_t seed) {
    Random random(seed, RandomStream::test);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = random.normal() * std::exp2(static_cast<float>(random.below(40)) - 20.0f);
    return values;
}

std::vector<double> partials(const std::vector<float>& values, Stream& stream) {
    std::vector<double> sums(static_cast<size_t>(div_up(std::ssize(values), kNormChunkElements)), -1.0);
    sum_squares(values.data(), std::ssize(values), sums, stream);
    return sums;
}

TEST(Norm, IsTheSumOfSquares) {
    CpuStream stream(2);
    for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{8}, int64_t{1001}, kNormChunkElements - 1,
                                kNormChunkElements, kNormChunkElements + 1, 3 * kNormChunkElements + 5}) {
        const std::vector<float> values = values_of(count, static_cast<uint64_t>(count));
        long double exact = 0;
        for (const float value : values) exact += static_cast<long double>(value) * value;
        const double sum = tree_sum(partials(values, stream));
        // Squares of floats are exact in double; each addition rounds once, 8 Ki of them in a row at most.
        EXPECT_NEAR(sum, static_cast<double>(exact), static_cast<double>(exact) * 0x1p-53 * 8200) << count;
    }
}

TEST(Norm, TeamsDoNotShow) {
    const std::vector<float> values = values_of(5 * kNormChunkElements + 123, 4);
    CpuStream one(1);
    const std::vector<double> reference = partials(values, one);
    for (const int threads : {2, 3, 5}) {
        CpuStream stream(threads);
        EXPECT_EQ(partials(values, stream), reference) << threads;
    }
}

TEST(Norm, SeesWhatIsNotFinite) {
    CpuStream stream(1);
    for (const float bad : {INFINITY, -INFINITY, NAN, 3e38f}) {
        std::vector<float> values = values_of(100, 5);
        values[57] = bad;
        EXPECT_EQ(std::isfinite(tree_sum(partials(values, stream))), bad == 3e38f);  // its square fits a double
    }
}

TEST(Norm, ATreeIsFixedByItsLength) {
    EXPECT_EQ(tree_sum({}), 0);
    const double one[] = {3};
    EXPECT_EQ(tree_sum(one), 3);
    // (a) + (b + c): the halves of an odd length, the shorter one first.
    const double three[] = {1, 0x1p-53, 0x1p-53};
    EXPECT_EQ(tree_sum(three), 1 + 0x1p-52);
    const double four[] = {1, 0x1p-53, 1, 0x1p-53};
    EXPECT_EQ(tree_sum(four), 2);
}

TEST(NormDeath, WantsAsManySumsAsChunks) {
    CpuStream stream(1);
    std::vector<double> sums(2);
    const float value = 1;
    EXPECT_DEATH(sum_squares(&value, 1, sums, stream), "2 partial sums for 1 elements");
}

}  // namespace
}  // namespace windlass
