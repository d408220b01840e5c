// What the agreement test does not reach: tokens without a target, numbers that are not, teams of several sizes.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "op/ops.h"

namespace windlass {
namespace {

using testing::Each;

constexpr int64_t kTokens = 1100, kColumns = 12, kVocab = 77;  // two tiles
constexpr float kNothing = 1234;                               // what results hold before they are written

struct Head {
    std::vector<float> x = std::vector<float>(kTokens * kColumns), w = std::vector<float>(kVocab * kColumns);
    std::vector<float> dx = std::vector<float>(x.size(), kNothing), dw = std::vector<float>(w.size(), kNothing);
    std::vector<float> loss = std::vector<float>(kTokens, kNothing);
    std::vector<int32_t> targets = std::vector<int32_t>(kTokens);

    Head() {
        Random random(1, RandomStream::test);
        for (auto* part : {&x, &w}) {
            for (float& number : *part) number = random.normal();
        }
        for (int32_t& target : targets) target = static_cast<int32_t>(random.below(kVocab));
    }

    void backward(int threads = 2) {
        OpSpec spec{.attrs = CrossEntropyAttrs{}, .in = {{kColumns}}, .weights = {{kVocab, kColumns}}};
        kCrossEntropy.infer(spec);
        const OpSize size{.rows = 1, .row_length = kTokens, .threads = threads};
        const Batch batch{.rows = 1, .row_length = kTokens, .targets = targets.data()};
        const StepParams step{.loss_scale = 0.25};
        const auto bytes = static_cast<size_t>(kCrossEntropy.scratch_bytes(spec, size, Direction::backward));
        std::vector<std::byte> scratch(bytes + 64);
        const size_t shift = 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
        const Tensor in[] = {{DType::f32, {kTokens, kColumns}, x.data()}},
                     out[] = {{DType::f32, {kTokens, 1}, loss.data()}};
        const Tensor grad_in[] = {{DType::f32, {kTokens, kColumns}, dx.data()}};
        const Weight weights[] = {{.base = {DType::f32, {kVocab, kColumns}, w.data()}}};
        const GradientSink sinks[] = {
            {GradientSink::Kind::accumulate, true, {DType::f32, {kVocab, kColumns}, dw.data()}}};
        CpuStream stream(threads);
        kCrossEntropy.on(DeviceKind::cpu)
            .backward({.spec = &spec,
                       .size = &size,
                       .batch = &batch,
                       .step = &step,
                       .in = in,
                       .out = out,
                       .weights = weights,
                       .grad_in = grad_in,
                       .sinks = sinks,
                       .scratch = std::span(scratch).subspan(shift, bytes)},
                      stream);
    }
};

TEST(CrossEntropy, TokensWithoutATargetCountForNothing) {
    Head head;
    std::fill(head.targets.begin(), head.targets.end(), kIgnored);
    head.backward();
    EXPECT_THAT(head.loss, Each(0));
    EXPECT_THAT(head.dx, Each(0));
    EXPECT_THAT(head.dw, Each(0));
}

// The first tile has no target, the second one: dW is written once, and is what that token gives.
TEST(CrossEntropy, ATileWithoutATargetIsSkipped) {
    Head head;
    std::fill(head.targets.begin(), head.targets.end(), kIgnored);
    head.targets.back() = 5;
    head.backward();
    EXPECT_THAT(std::vector<float>(head.dx.begin(), head.dx.end() - kColumns), Each(0));
    const float* x = head.x.data() + (kTokens - 1) * kColumns;
    std::vector<double> p(kVocab);
    double sum = 0;
    for (int64_t i = 0; i < kVocab; ++i) {
        double logit = 0;
        for (int64_t c = 0; c < kColumns; ++c) logit += double{x[c]} * double{head.w[i * kColumns + c]};
        sum += p[i] = std::exp(logit);
    }
    EXPECT_NEAR(head.loss.back(), -std::log(p[5] / sum), 1e-5);
    for (int64_t i = 0; i < kVocab; ++i) {
        const double gradient = 0.25 * (p[i] / sum - (i == 5 ? 1 : 0));
        for (int64_t c = 0; c < kColumns; ++c) EXPECT_NEAR(head.dw[i * kColumns + c], gradient * double{x[c]}, 1e-6);
    }
}

// One row of the weights is not a number: every logit row has one, and every loss must show it.
TEST(CrossEntropy, NotANumberShowsInTheLoss) {
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        const Isa before = cpu_isa();
        set_cpu_isa(isa);
        Head head;
        head.w[33 * kColumns] = std::numeric_limits<float>::quiet_NaN();
        head.backward();
        set_cpu_isa(before);
        for (const float loss : head.loss) ASSERT_FALSE(std::isfinite(loss)) << isa_name(isa);
    }
}

TEST(CrossEntropy, BitsDoNotDependOnTheTeam) {
    Head one, two, three;
    one.backward(1);
    two.backward(2);
    three.backward(3);
    EXPECT_EQ(one.dw, two.dw);
    EXPECT_EQ(one.dx, two.dx);
    EXPECT_EQ(one.dw, three.dw);
    EXPECT_EQ(one.dx, three.dx);
}

TEST(CrossEntropy, TilesStayNear128MiB) {
    EXPECT_EQ(cross_entropy_tile(50257), 640);
    EXPECT_EQ(cross_entropy_tile(128256), 256);
    EXPECT_EQ(cross_entropy_tile(100), 1024);
    EXPECT_EQ(cross_entropy_tile(int64_t{1} << 30), 64);
}

}  // namespace
}  // namespace windlass
