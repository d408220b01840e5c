// Weights of nf4 under the noise kernels, which only read them: as numbers that are computed with, and probed, wherever
// a run begins in a block.
#include <gtest/gtest.h>

#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "tensor/nf4.h"
#include "tests/unit/op/every_isa.h"
#include "tests/unit/perturb/noise_reference.h"

namespace windlass {
namespace {

using Bytes = std::vector<std::byte>;

// A matrix in blocks, and its numbers.
struct Blocks {
    Bytes bytes;
    std::vector<float> numbers;

    explicit Blocks(int64_t count) : bytes(static_cast<size_t>(nf4_bytes(count))), numbers(static_cast<size_t>(count)) {
        Random random(11, RandomStream::test);
        for (float& number : numbers) number = 0.02f * random.normal();
        for (size_t i = 0; i < numbers.size(); i += 97) numbers[i] = i % 2 == 0 ? 0.0f : -1.0f;
        std::fill_n(numbers.begin() + 640, 64, 0.0f);
        encode_nf4(numbers, kNf4Scales, bytes);
        decode_nf4(bytes, 0, numbers);
    }
};

struct Probes {
    std::vector<float> plus, minus;
    bool operator==(const Probes&) const = default;
};

// Of elements [begin, end) of a matrix of so many, `skip` of them behind the first of these weights.
Probes probes_of(const Directions& of, int64_t begin, int64_t end, NoisePass pass, int threads = 1) {
    const NoiseTerm probe = of.term(10, 2, 1e-3);
    Probes probes;
    probes.plus.resize(static_cast<size_t>(end - begin));
    probes.minus = probes.plus;
    pass.probe = &probe;
    pass.probe_type = WeightType::f32;
    pass.plus = probes.plus.data();
    pass.minus = probes.minus.data();
    update_and_probe(of.part(begin, end), pass, *make_stream(DeviceKind::cpu, threads));
    return probes;
}

class Nf4Noise : public testing::TestWithParam<NoiseKind> {};

// A probed copy is that of the numbers which blocks stand for, to the bit: from anywhere to anywhere.
TEST_P(Nf4Noise, ProbesTheNumbersThatBlocksStandFor) {
    const Directions of(GetParam());
    const Blocks blocks(of.run.count);
    on_every_isa([&] {
        const Probes all = probes_of(of, 0, of.run.count, {.type = WeightType::f32, .weights = blocks.numbers.data()});
        EXPECT_TRUE(probes_of(of, 0, of.run.count, {.type = WeightType::nf4, .weights = blocks.bytes.data()}, 3) ==
                    all);
        for (const int64_t begin : {1, 63, 64, 1000, 4096, 10'001, 19'999}) {
            for (const int64_t count : {int64_t{1}, int64_t{37}, int64_t{64}, int64_t{1030}, of.run.count - begin}) {
                const int64_t end = std::min(of.run.count, begin + count), block = begin / kNf4Block;
                const auto some = [&](const std::vector<float>& whole) {
                    return std::vector<float>(whole.begin() + begin, whole.begin() + end);
                };
                const Probes expected{some(all.plus), some(all.minus)};
                // Counted from the matrix's first block, and from the piece's.
                EXPECT_TRUE(probes_of(of, begin, end,
                                      {.type = WeightType::nf4, .weights = blocks.bytes.data(), .skip = begin}) ==
                            expected);
                EXPECT_TRUE(probes_of(of, begin, end,
                                      {.type = WeightType::nf4,
                                       .weights = blocks.bytes.data() + block * kNf4BlockBytes,
                                       .skip = begin - block * kNf4Block}) == expected)
                    << begin << " + " << count;
            }
        }
    });
}

// Factors that are drawn in passing: a matrix is then cut into parts of its columns.
TEST(Nf4Noise, ProbesAlongDrawnFactors) {
    const Directions of(NoiseKind::low_rank);
    const Blocks blocks(of.run.count);
    const NoiseTerm probe{.step = 10, .direction = 2, .coefficient = 1e-3f};
    const auto probed = [&](WeightType type, const void* weights) {
        std::vector<float> plus(static_cast<size_t>(of.run.count));
        update_and_probe(
            of.run,
            {.type = type, .weights = weights, .probe = &probe, .probe_type = WeightType::f32, .plus = plus.data()},
            *make_stream(DeviceKind::cpu, 2));
        return plus;
    };
    const std::vector<float> expected = probed(WeightType::f32, blocks.numbers.data());
    EXPECT_NE(expected, blocks.numbers);
    EXPECT_EQ(probed(WeightType::nf4, blocks.bytes.data()), expected);
}

TEST(Nf4Noise, IsNeverWritten) {
    const Directions of(NoiseKind::gaussian);
    Blocks blocks(of.run.count);
    const NoiseTerm term = of.term(8, 0, 1e-3);
    const NoiseStep step{8, 0.0f, &term, 1};
    EXPECT_DEATH(update_and_probe(of.run,
                                  {.type = WeightType::nf4,
                                   .weights = blocks.bytes.data(),
                                   .updated = blocks.bytes.data(),
                                   .steps = &step,
                                   .step_count = 1},
                                  *make_stream(DeviceKind::cpu, 1)),
                 "weights of nf4 are only read");
}

// What a frozen matrix is computed with: its numbers, rounded as weights of any other type are.
TEST(Nf4Noise, CopiesAreTheNumbersAsTheyAreComputedWith) {
    const int64_t count = 3 * 4096 + 77;
    Blocks blocks(count);
    const LoneParam param{.spec = {.name = "w", .shape = {1, count}},
                          .training = {.trains = false},
                          .storage = {.store = StoreType::as_file, .dtype = DType::nf4}};
    on_every_isa([&] {
        for (const DType compute : {DType::f32, DType::bf16}) {
            Bytes copy(static_cast<size_t>(stored_bytes(compute, count))), expected = copy;
            encode_numbers(compute, blocks.numbers, expected);
            const StepParams step{.seed = 1, .step = 1, .method = PerturbStep()};
            const MaterializeCall call{.param = param,
                                       .weights = blocks.bytes.data(),
                                       .step = &step,
                                       .compute = compute,
                                       .plain = copy.data()};
            const Bytes before = blocks.bytes;
            materialize_points(call, *make_stream(DeviceKind::cpu, 2));
            EXPECT_TRUE(copy == expected) << dtype_name(compute);
            EXPECT_TRUE(blocks.bytes == before);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Nf4Noise, testing::ValuesIn(kDirectionKinds),
                         [](const auto& info) { return std::string(noise_kind_name(info.param)); });

}  // namespace
}  // namespace windlass
