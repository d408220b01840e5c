// Updates on CUDA devices have the CPU's bits, in every state format; so have the norm's partial sums.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "method/methods.h"
#include "method/norm.h"
#include "schedule/numerics.h"
#include "tests/agree/visible.h"
#include "tests/simt/emulated.h"

namespace windlass {
namespace {

using agree::VisibleVector;

constexpr DeviceKind kKinds[] = {DeviceKind::cpu, DeviceKind::cuda};

// Gradients over twenty powers of ten, with zeros, numbers below the normal ones and large ones.
float gradient_of(Random& random) {
    const uint64_t kind = random.below(32);
    if (kind == 0) return 0.0f;
    if (kind == 1) return std::bit_cast<float>(static_cast<uint32_t>(random.below(1 << 23)));
    if (kind == 2) return 1e15f * random.normal();
    return std::pow(10.0f, static_cast<float>(random.below(20)) - 15.0f) * random.normal();
}

// One parameter with its state, updated by a device's own kernel.
struct Trained {
    // Gradients begin `skipped` numbers behind where memory does.
    Trained(DeviceKind kind, StateFormat format, int64_t count, int64_t start, size_t skipped)
        : kind(kind),
          options{.beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1, .state_format = format},
          recipe(make_recipe("adamw", options)),
          hi(static_cast<size_t>(count)),
          lo(hi.size()),
          gradient(hi.size() + skipped),
          start(start),
          skipped(skipped) {
        for (const StateSpec& spec : recipe.state) state.emplace_back(static_cast<size_t>(state_bytes(spec, count)));
        Random random(3, RandomStream::test);
        for (size_t i = 0; i < hi.size(); ++i) {
            const Split halves = split_master(std::bit_cast<uint32_t>(0.1f * random.normal()));
            hi[i] = halves.hi;
            lo[i] = halves.lo;
        }
    }

    void step(int64_t number) {
        Random random(static_cast<uint64_t>(number), RandomStream::test);
        for (float& each : gradient) each = gradient_of(random);
        StepParams params{.seed = 11, .step = number, .learning_rate = 1e-2, .clip_scale = 0.5};
        recipe.prepare(options, params);
        const LoneParam param{.spec = {.name = "w", .shape = Shape{std::ssize(hi)}}};
        std::vector<std::byte*> parts;
        for (auto& each : state) parts.push_back(each.data());
        const ParamCall call{.param = param,
                             .element = start,
                             .count = std::ssize(hi),
                             .hi = hi.data(),
                             .lo = lo.data(),
                             .state = parts,
                             .gradient = gradient.data() + skipped,
                             .step = &params};
        const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
        const ParamCell kernel = recipe.update()->cells[static_cast<size_t>(kind)];
        ASSERT_NE(kernel, nullptr);
        stream->launch([&](const Launch& launch) { kernel(call, launch.stream()); });
        stream->synchronize();
    }

    std::string bytes() const {
        std::string all;
        const auto append = [&](const auto& list) {
            all.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof list[0]);
        };
        append(hi), append(lo);
        for (const auto& part : state) append(part);
        return all;
    }

    DeviceKind kind;
    MethodOptions options;
    Recipe recipe;
    VisibleVector<uint16_t> hi;
    VisibleVector<int16_t> lo;
    VisibleVector<float> gradient;
    std::vector<VisibleVector<std::byte>> state;
    int64_t start;
    size_t skipped;
};

void expect_the_cpus_bits(StateFormat format, int64_t count, int64_t start, size_t skipped = 0) {
    Trained cpu(DeviceKind::cpu, format, count, start, skipped), cuda(DeviceKind::cuda, format, count, start, skipped);
    ASSERT_EQ(cpu.bytes(), cuda.bytes());
    const std::string before = cpu.bytes();
    for (int64_t number = 1; number <= 3; ++number) {
        for (Trained* const each : {&cpu, &cuda}) each->step(number);
        EXPECT_TRUE(cpu.bytes() == cuda.bytes()) << count << " elements, step " << number;
    }
    EXPECT_NE(cpu.bytes(), before);
}

class Update : public testing::TestWithParam<StateFormat> {};

TEST_P(Update, HasTheCpusBits) {
    for (const int64_t count : {int64_t{1}, int64_t{127}, int64_t{129}, int64_t{256}, int64_t{1000}, int64_t{65'537}})
        expect_the_cpus_bits(GetParam(), count, 0);
    expect_the_cpus_bits(GetParam(), 4'099, int64_t{1} << 40);
    expect_the_cpus_bits(GetParam(), 1'027, 0, /*skipped=*/1);  // fours of gradients lie at no multiple of their size
}

class SlowUpdate : public Update {};

TEST_P(SlowUpdate, HasTheCpusBits) {
    expect_the_cpus_bits(GetParam(), simt::many() + 77, 256 * 12345);
}

INSTANTIATE_TEST_SUITE_P(Formats, Update, testing::ValuesIn(kStateFormats));
INSTANTIATE_TEST_SUITE_P(Formats, SlowUpdate, testing::ValuesIn(kStateFormats));

TEST(Squares, HaveTheCpusBits) {
    for (const int64_t count : {int64_t{1}, int64_t{7}, int64_t{8}, int64_t{1001}, kNormChunkElements - 1,
                                kNormChunkElements, kNormChunkElements + 1, 3 * kNormChunkElements + 5}) {
        VisibleVector<float> values(static_cast<size_t>(count));
        Random random(static_cast<uint64_t>(count), RandomStream::test);
        for (float& value : values) value = gradient_of(random);
        std::vector<VisibleVector<double>> sums;
        for (const DeviceKind kind : kKinds) {
            auto& found = sums.emplace_back(static_cast<size_t>(div_up(count, kNormChunkElements)), -1.0);
            const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
            stream->launch([&](const Launch& launch) { sum_squares(values.data(), count, found, launch.stream()); });
            stream->synchronize();
        }
        EXPECT_EQ(sums[0], sums[1]) << count;
    }
}

// One launch covers several gradients, of the same bits, and of more than one launch takes.
TEST(Squares, OfSeveralGradientsAreThoseOfEach) {
    Random random(7, RandomStream::test);
    std::vector<VisibleVector<float>> values;
    std::vector<VisibleVector<double>> apart, together;
    std::vector<ParamCall> calls;
    const LoneParam param{.spec = {.name = "w", .shape = Shape{1}}};
    for (int64_t i = 0; i < 37; ++i) {
        const int64_t count = 1 + (i % 5 == 0 ? kNormChunkElements + i : 31 * i % 97);
        for (float& value : values.emplace_back(static_cast<size_t>(count))) value = gradient_of(random);
        for (auto* sums : {&apart, &together})
            sums->emplace_back(static_cast<size_t>(div_up(count, kNormChunkElements)), -1.0);
    }
    const std::unique_ptr<Stream> stream = make_device({DeviceKind::cuda})->make_stream(2);
    stream->launch([&](const Launch& launch) {
        for (size_t i = 0; i < values.size(); ++i) {
            const auto count = std::ssize(values[i]);
            sum_squares(values[i].data(), count, apart[i], launch.stream());
            calls.push_back(
                {.param = param, .count = count, .gradient = values[i].data(), .squares = together[i].data()});
        }
        kSumSquares.joined_cells[static_cast<size_t>(DeviceKind::cuda)](calls, launch.stream());
    });
    stream->synchronize();
    EXPECT_EQ(apart, together);
}

}  // namespace
}  // namespace windlass
