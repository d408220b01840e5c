// Gradients rounded and widened by CUDA kernels have the CPU's bits.
#include "method/round_gradient.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/index.h"
#include "base/rng.h"
#include "tests/agree/visible.h"
#include "tests/simt/emulated.h"

namespace windlass {
namespace {

using agree::VisibleVector;

// Magnitudes over many powers of ten; some blocks hold zeros alone, or something that is not finite.
float sum_of(Random& random, int64_t i) {
    if (i / 256 % 7 == 3) return 0.0f;
    if (i == 1500) return std::bit_cast<float>(0x7fc00001u);
    return std::pow(10.0f, static_cast<float>(random.below(12)) - 9.0f) * random.normal();
}

struct NarrowOnDevice {
    VisibleVector<float> sums, wide;
    VisibleVector<std::byte> narrow;

    NarrowOnDevice(DeviceKind kind, GradientFormat format, int64_t count, int64_t element)
        : sums(at(count)), wide(at(count)), narrow(at(gradient_bytes(format, count))) {
        Random random(5, RandomStream::test);
        for (int64_t i = 0; i < count; ++i) sums[at(i)] = sum_of(random, i);
        const StepParams params{.seed = 9, .step = 4};
        const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
        stream->launch([&](const Launch& launch) {
            round_gradient({format, &params, element, count, sums.data(), narrow.data()}, launch.stream());
            widen_gradient({format, count, narrow.data(), wide.data()}, launch.stream());
        });
        stream->synchronize();
    }
    std::string bytes() const {
        std::string all;
        const auto append = [&](const auto& list) {
            all.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
        };
        append(sums), append(wide), append(narrow);
        return all;
    }
};

class GradientRounding : public testing::TestWithParam<GradientFormat> {};

TEST_P(GradientRounding, HasTheCpusBits) {
    for (const int64_t count : {int64_t{1}, int64_t{65}, int64_t{256}, int64_t{1999}, int64_t{65'537}}) {
        for (const int64_t element : {int64_t{0}, int64_t{1} << 40}) {
            const NarrowOnDevice cpu(DeviceKind::cpu, GetParam(), count, element),
                cuda(DeviceKind::cuda, GetParam(), count, element);
            EXPECT_TRUE(cpu.bytes() == cuda.bytes()) << count << " numbers from " << element;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, GradientRounding, testing::ValuesIn(kGradientFormats));

}  // namespace
}  // namespace windlass
