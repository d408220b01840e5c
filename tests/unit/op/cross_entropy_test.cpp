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
constexpr int64_t kRank = 3;                                   // columns of the second product
constexpr float kNothing = 1234;                               // what results hold before they are written

struct Head {
    std::vector<float> x = std::vector<float>(kTokens * kColumns), w = std::vector<float>(kVocab * kColumns);
    std::vector<float> dx = std::vector<float>(x.size(), kNothing), dw = std::vector<float>(w.size(), kNothing);
    std::vector<float> u = std::vector<float>(kTokens * kRank), b = std::vector<float>(kVocab * kRank);
    std::vector<float> du = std::vector<float>(u.size(), kNothing), db = std::vector<float>(b.size(), kNothing);
    std::vector<float> loss = std::vector<float>(kTokens, kNothing);
    std::vector<int32_t> targets = std::vector<int32_t>(kTokens);

    Head() {
        Random random(1, RandomStream::test);
        for (auto* part : {&x, &w, &u, &b}) {
            for (float& number : *part) number = random.normal();
        }
        for (int32_t& target : targets) target = static_cast<int32_t>(random.below(kVocab));
    }

    // What forward says of each token (StepParams::head).
    void forward(HeadResult result, int64_t id_count = kVocab) {
        OpSpec spec{.attrs = CrossEntropyAttrs{}, .in = {{kColumns}}, .weights = {{kVocab, kColumns}}};
        kCrossEntropy.infer(spec);
        const OpSize size{.rows = 1, .sequence_length = kTokens, .threads = 2};
        const Batch batch{.rows = 1, .sequence_length = kTokens, .targets = targets.data()};
        const HeadParams head{.result = result, .id_count = id_count};
        const auto bytes = static_cast<size_t>(kCrossEntropy.scratch_bytes(spec, size, DiffMode::forward));
        std::vector<std::byte> scratch(bytes + 64);
        const size_t shift = 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
        const Tensor in[] = {{DType::f32, {kTokens, kColumns}, x.data()}},
                     out[] = {{DType::f32, {kTokens, 1}, loss.data()}};
        const Weight weights[] = {{.base = {DType::f32, {kVocab, kColumns}, w.data()}}};
        CpuStream stream(2);
        kCrossEntropy.on(DeviceKind::cpu)
            .kernels->forward({.spec = &spec,
                               .size = &size,
                               .batch = &batch,
                               .head = &head,
                               .in = in,
                               .out = out,
                               .weights = weights,
                               .scratch = std::span(scratch).subspan(shift, bytes)},
                              stream);
    }

    // products: 2 with u b^T, else 1.
    void backward(int threads = 2, size_t products = 1) {
        OpSpec spec{.attrs = CrossEntropyAttrs{},
                    .in = {{kColumns}, {kRank}},
                    .weights = {{kVocab, kColumns}, {kVocab, kRank}}};
        spec.in.resize(products);
        spec.weights.resize(products);
        kCrossEntropy.infer(spec);
        const OpSize size{.rows = 1, .sequence_length = kTokens, .threads = threads};
        const Batch batch{.rows = 1, .sequence_length = kTokens, .targets = targets.data()};
        const HeadParams head{.loss_scale = 0.25};
        const auto bytes = static_cast<size_t>(kCrossEntropy.scratch_bytes(spec, size, DiffMode::vjp));
        std::vector<std::byte> scratch(bytes + 64);
        const size_t shift = 64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64;
        const Tensor in[] = {{DType::f32, {kTokens, kColumns}, x.data()}, {DType::f32, {kTokens, kRank}, u.data()}},
                     out[] = {{DType::f32, {kTokens, 1}, loss.data()}};
        const Tensor grad_in[] = {{DType::f32, {kTokens, kColumns}, dx.data()},
                                  {DType::f32, {kTokens, kRank}, du.data()}};
        const Weight weights[] = {{.base = {DType::f32, {kVocab, kColumns}, w.data()}},
                                  {.base = {DType::f32, {kVocab, kRank}, b.data()}}};
        const GradientSink sinks[] = {{{DType::f32, {kVocab, kColumns}, dw.data()}, true},
                                      {{DType::f32, {kVocab, kRank}, db.data()}, true}};
        CpuStream stream(threads);
        kCrossEntropy.on(DeviceKind::cpu)
            .kernels->vjp({.spec = &spec,
                           .size = &size,
                           .batch = &batch,
                           .head = &head,
                           .in = std::span(in).first(products),
                           .out = out,
                           .weights = std::span(weights).first(products),
                           .grad_in = std::span(grad_in).first(products),
                           .sinks = std::span(sinks).first(products),
                           .scratch = std::span(scratch).subspan(shift, bytes)},
                          stream);
    }
};

TEST(CrossEntropy, TokensWithoutATargetCountForNothing) {
    Head head;
    std::fill(head.targets.begin(), head.targets.end(), kIgnored);
    head.backward(2, 2);
    EXPECT_THAT(head.loss, Each(0));
    EXPECT_THAT(head.dx, Each(0));
    EXPECT_THAT(head.dw, Each(0));
    EXPECT_THAT(head.du, Each(0));
    EXPECT_THAT(head.db, Each(0));
}

// The first tile has no target: what the second product gives is written once too, and nothing is added to what was
// there before.
TEST(CrossEntropy, ASecondProductOfATileWithoutATargetIsSkipped) {
    Head head;
    std::fill(head.targets.begin(), head.targets.end(), kIgnored);
    head.targets.back() = 5;
    head.backward(2, 2);
    EXPECT_THAT(std::vector<float>(head.du.begin(), head.du.end() - kRank), Each(0));
    double sum = 0;
    for (int64_t i = 0; i < kVocab; ++i) sum += double{head.db[static_cast<size_t>(i * kRank)]};
    EXPECT_NEAR(sum, 0, 1e-6) << "the gradients of a row of logits add up to zero";
    EXPECT_NE(head.db[5 * kRank], 0);
}

// A second product of zeros changes no bit, as of an adapter that has not been trained.
TEST(CrossEntropy, ASecondProductOfZerosChangesNoBit) {
    Head plain, with;
    std::fill(with.b.begin(), with.b.end(), 0.0f);
    plain.backward(2);
    with.backward(2, 2);
    EXPECT_EQ(plain.loss, with.loss);
    EXPECT_EQ(plain.dx, with.dx);
    EXPECT_EQ(plain.dw, with.dw);
    EXPECT_THAT(with.du, Each(0));
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

// Makes ids 7 and 20 equally likely everywhere; returns the likeliest id below `id_count` of each token.
std::vector<int32_t> likeliest_ids(Head& head, int64_t id_count) {
    std::copy_n(&head.w[7 * kColumns], kColumns, &head.w[20 * kColumns]);
    std::vector<int32_t> likeliest;
    for (int64_t t = 0; t < kTokens; ++t) {
        std::vector<double> logits(static_cast<size_t>(id_count));
        for (int64_t i = 0; i < id_count; ++i)
            for (int64_t c = 0; c < kColumns; ++c)
                logits[static_cast<size_t>(i)] += double{head.x[t * kColumns + c]} * double{head.w[i * kColumns + c]};
        logits[20] = logits[7];
        likeliest.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    return likeliest;
}

// Of two that are equally likely only the lower can be what greedy decoding writes.
TEST(CrossEntropy, MissesAreTargetsThatGreedyDecodingDoesNotWrite) {
    Head head;
    const std::vector<int32_t> likeliest = likeliest_ids(head, kVocab);
    ASSERT_GT(std::count(likeliest.begin(), likeliest.end(), 7), 0);
    head.targets = likeliest;
    head.forward(HeadResult::is_wrong);
    EXPECT_THAT(head.loss, Each(0));
    for (size_t t = 0; t < likeliest.size(); ++t)
        head.targets[t] = t % 5 == 0 ? kIgnored : likeliest[t] == 7 ? 20 : (likeliest[t] + 1) % kVocab;
    head.forward(HeadResult::is_wrong);
    for (size_t t = 0; t < likeliest.size(); ++t) ASSERT_EQ(head.loss[t], t % 5 == 0 ? 0 : 1) << t;
    head.w[33 * kColumns] = std::numeric_limits<float>::quiet_NaN();
    std::fill(head.targets.begin(), head.targets.end(), 33);
    head.forward(HeadResult::is_wrong);
    for (const float miss : head.loss) ASSERT_TRUE(std::isnan(miss)) << "no number is no answer";
}

TEST(CrossEntropy, TheLikeliestIsWhatGreedyDecodingWrites) {
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        const Isa before = cpu_isa();
        set_cpu_isa(isa);
        for (const int64_t id_count : {kVocab, int64_t{33}}) {  // the table may have rows that are no ids
            Head head;
            const std::vector<int32_t> likeliest = likeliest_ids(head, id_count);
            ASSERT_GT(std::count(likeliest.begin(), likeliest.end(), 7), 0);
            for (size_t t = 0; t < likeliest.size(); t += 5) head.targets[t] = kIgnored;
            head.forward(HeadResult::argmax, id_count);
            for (size_t t = 0; t < likeliest.size(); ++t)
                ASSERT_EQ(head.loss[t], static_cast<float>(t % 5 == 0 ? 0 : likeliest[t])) << isa_name(isa) << t;
        }
        Head head;
        std::fill(head.targets.begin(), head.targets.end(), 0);
        head.w[33 * kColumns] = std::numeric_limits<float>::quiet_NaN();
        head.forward(HeadResult::argmax);
        set_cpu_isa(before);
        for (const float id : head.loss) ASSERT_TRUE(std::isnan(id)) << "no number is no answer";
    }
}

TEST(CrossEntropy, BitsDoNotDependOnTheTeam) {
    Head one, two, three;
    one.backward(1, 2);
    two.backward(2, 2);
    three.backward(3, 2);
    for (const Head* other : {&two, &three}) {
        EXPECT_EQ(one.dw, other->dw);
        EXPECT_EQ(one.dx, other->dx);
        EXPECT_EQ(one.db, other->db);
        EXPECT_EQ(one.du, other->du);
    }
}

TEST(CrossEntropy, TilesStayNear128MiB) {
    EXPECT_EQ(cross_entropy_tile(50257), 640);
    EXPECT_EQ(cross_entropy_tile(128256), 256);
    EXPECT_EQ(cross_entropy_tile(100), 1024);
    EXPECT_EQ(cross_entropy_tile(int64_t{1} << 30), 64);
}

}  // namespace
}  // namespace windlass
