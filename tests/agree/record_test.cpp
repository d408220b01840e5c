// Facts that hold for every record in the list.
#include <gtest/gtest.h>

#include "op/ops.h"
#include "tests/agree/reference.h"

namespace windlass {
namespace {

const OpSize kSize{.rows = 2, .sequence_length = 16, .compute = DType::bf16};

// Every case of every op, with its shapes inferred.
template <typename Body>
void for_every_case(Body body) {
    for (const OpRecord* op : all_ops()) {
        for (OpCase& op_case : op->cases()) {
            SCOPED_TRACE(std::string(op->name) + "/" + op_case.name);
            op->infer(op_case.spec);
            body(*op, op_case.spec);
        }
    }
}

TEST(Records, AreComplete) {
    std::set<std::string_view> names;
    for (const OpRecord* op : all_ops()) {
        SCOPED_TRACE(op->name);
        EXPECT_TRUE(names.insert(op->name).second) << "listed twice";
        const OpCells& cells = op->on(DeviceKind::cpu);
        for (const DiffMode mode : {DiffMode::forward, DiffMode::vjp, DiffMode::jvp})
            EXPECT_NE(cells.of(mode), nullptr);
        ASSERT_TRUE(op->infer != nullptr && cells.cost != nullptr && op->cases != nullptr);
        EXPECT_FALSE(op->cases().empty());
    }
}

TEST(Records, NameTheirCasesOnce) {
    for (const OpRecord* op : all_ops()) {
        std::set<std::string> names;
        for (const OpCase& op_case : op->cases()) EXPECT_TRUE(names.insert(op_case.name).second) << op->name;
    }
}

TEST(Records, CostSomething) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        for (const DiffMode mode : {DiffMode::forward, DiffMode::vjp, DiffMode::jvp}) {
            const Cost cost = op.cost(spec, kSize, mode);
            EXPECT_GT(cost.bytes, 0);
            EXPECT_GE(cost.flops, cost.model_flops);
            EXPECT_GE(cost.model_flops, 0);
        }
    });
}

double as_double(int64_t count) {
    return static_cast<double>(count);
}

// Multiplications and additions of the formulae: a linear layer is one product forward and two backward, and a
// direction two more (dx W^T and x dW^T). The planner rests on these.
TEST(Costs, OfLinearAreItsProducts) {
    const int64_t tokens = 2 * 16, in = 24, out = 40, k = 3;
    OpSpec spec{.attrs = LinearAttrs{}, .in = {{.cols = in}}, .weights = {Shape{out, in}}};
    kLinear.infer(spec);
    const double product = as_double(2 * tokens * in * out);
    const int64_t values = 2 * tokens * (in + out), weight = 2 * in * out;  // bf16
    const Cost forward = kLinear.cost(spec, kSize, DiffMode::forward);
    EXPECT_EQ(forward.flops, product);
    EXPECT_EQ(forward.bytes, values + weight);
    const Cost backward = kLinear.cost(spec, kSize, DiffMode::vjp);
    EXPECT_EQ(backward.flops, 2 * product);
    EXPECT_EQ(backward.bytes, 2 * values + weight + 2 * 4 * in * out) << "the gradient is read and written in f32";
    OpSize size = kSize;
    size.trains_weights = false;
    EXPECT_EQ(kLinear.cost(spec, size, DiffMode::vjp).model_flops, product) << "dX alone";
    EXPECT_EQ(kLinear.cost(spec, size, DiffMode::vjp).bytes, forward.bytes) << "dY, dX and W";
    size = kSize;
    size.k = k;
    EXPECT_EQ(kLinear.cost(spec, size, DiffMode::jvp).flops, 2 * k * product);
    size.rank = 4;  // x dW^T by way of x v^T and u
    EXPECT_EQ(kLinear.cost(spec, size, DiffMode::jvp).flops,
              as_double(k) * (product + as_double(2 * tokens * size.rank * (in + out))));
}

TEST(Costs, OfTheHeadAreItsProducts) {
    const int64_t tokens = 2 * 16, cols = 24, vocab = 130;
    OpSpec spec{.attrs = CrossEntropyAttrs{}, .in = {{.cols = cols}}, .weights = {Shape{vocab, cols}}};
    kCrossEntropy.infer(spec);
    const double product = as_double(2 * tokens * cols * vocab);
    EXPECT_EQ(kCrossEntropy.cost(spec, kSize, DiffMode::forward).flops, product);
    EXPECT_EQ(kCrossEntropy.cost(spec, kSize, DiffMode::vjp).flops, 3 * product) << "logits, dX, dW";
    OpSize size = kSize;
    size.trains_weights = false;
    EXPECT_EQ(kCrossEntropy.cost(spec, size, DiffMode::vjp).model_flops, 2 * product) << "logits, dX";
    size = kSize;
    size.k = 3;
    EXPECT_EQ(kCrossEntropy.cost(spec, size, DiffMode::jvp).flops, (1 + 2 * 3) * product);
}

// Of a second product, whose weight is trained where the first one's is not.
TEST(Costs, OfTheHeadAreThoseOfBothProducts) {
    const int64_t tokens = 2 * 16, cols = 24, vocab = 130, rank = 4;
    OpSpec spec{.attrs = CrossEntropyAttrs{},
                .in = {{.cols = cols}, {.cols = rank}},
                .weights = {Shape{vocab, cols}, Shape{vocab, rank}}};
    kCrossEntropy.infer(spec);
    const double table = as_double(2 * tokens * cols * vocab), second = as_double(2 * tokens * rank * vocab);
    EXPECT_EQ(kCrossEntropy.cost(spec, kSize, DiffMode::forward).flops, table + second);
    EXPECT_EQ(kCrossEntropy.cost(spec, kSize, DiffMode::vjp).flops, 3 * (table + second));
    OpSize size = kSize;
    size.trains_weights = false;
    EXPECT_EQ(kCrossEntropy.cost(spec, size, DiffMode::vjp).model_flops, 2 * table + 3 * second);
}

// Of each query and each key that it sees: q k and p v forward; dv, dp, dq, dk backward.
TEST(Costs, OfAttentionAreItsPairs) {
    for (const int64_t window : {0, 5}) {
        OpSpec spec{.attrs = AttentionAttrs{.heads = 4, .key_heads = 2, .head_size = 8, .scale = 1, .window = window},
                    .in = {{.cols = 32}, {.cols = 16}, {.cols = 16}}};
        kAttention.infer(spec);
        int64_t seen = 0;
        for (int64_t query = 0; query < 16; ++query) seen += window == 0 ? query + 1 : std::min(query + 1, window);
        const double product = as_double(2 * 8 * seen * 4 * 2);  // heads, rows
        EXPECT_EQ(kAttention.cost(spec, kSize, DiffMode::forward).model_flops, 2 * product);
        EXPECT_EQ(kAttention.cost(spec, kSize, DiffMode::vjp).model_flops, 4 * product);
        OpSize size = kSize;
        size.k = 3;
        EXPECT_EQ(kAttention.cost(spec, size, DiffMode::jvp).model_flops, (2 + 4 * 3) * product);
    }
}

// A product a number; three operations more for the weight's gradient, two for its tangent, which both read the input.
TEST(Costs, OfScaleAreItsProducts) {
    const int64_t tokens = 2 * 16, cols = 24, k = 3;
    const int64_t value = 2 * tokens * cols, weight = 2 * cols;  // bf16
    OpSpec plain{.attrs = ScaleAttrs{.factor = 0.3}, .in = {{.cols = cols}}}, weighted = plain;
    weighted.weights = {Shape{cols}};
    kScale.infer(plain);
    kScale.infer(weighted);
    OpSize size = kSize;
    size.k = k;
    const auto expect = [&](const OpSpec& spec, DiffMode mode, int64_t flops, int64_t bytes) {
        const Cost cost = kScale.cost(spec, size, mode);
        EXPECT_EQ(cost.flops, as_double(flops * tokens * cols));
        EXPECT_EQ(cost.model_flops, cost.flops);
        EXPECT_EQ(cost.bytes, bytes);
    };
    expect(plain, DiffMode::forward, 1, 2 * value);
    expect(plain, DiffMode::vjp, 1, 2 * value);
    expect(plain, DiffMode::jvp, k, 2 * k * value);
    expect(weighted, DiffMode::forward, 1, 2 * value + weight);
    expect(weighted, DiffMode::vjp, 4, 3 * value + weight + 2 * 4 * cols);
    expect(weighted, DiffMode::jvp, 3 * k, (2 * k + 1) * value + (1 + k) * weight);
    size.trains_weights = false;
    expect(weighted, DiffMode::vjp, 1, 2 * value + weight);
}

// Each number of W + s B A: r multiply-adds and its square, in each direction, whatever the tokens.
TEST(Costs, OfMagnitudeAreItsNorms) {
    const int64_t tokens = 2 * 16, in = 24, out = 40, rank = 4;
    OpSpec spec{.attrs = MagnitudeAttrs{},
                .in = {{.cols = out}},
                .weights = {Shape{out}, Shape{out, in}, Shape{rank, in}, Shape{out, rank}}};
    kMagnitude.infer(spec);
    const double norms = as_double(2 * in * out * (rank + 1));
    const int64_t value = 2 * tokens * out, weights = 2 * (out + out * in + rank * in + out * rank);  // bf16
    OpSize size = kSize;
    const auto expect = [&](DiffMode mode, int64_t flops, int64_t bytes) {
        const Cost cost = kMagnitude.cost(spec, size, mode);
        EXPECT_EQ(cost.flops, norms + as_double(flops * tokens * out));
        EXPECT_EQ(cost.bytes, bytes + weights);
    };
    expect(DiffMode::forward, 3, 2 * value);
    expect(DiffMode::vjp, 5, 3 * value + 2 * 4 * out);
    size.trains_weights = false;
    expect(DiffMode::vjp, 1, 2 * value);
}

TEST(Records, CostGrowsWithTokensAndDirections) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        OpSize more = kSize;
        more.rows *= 2;
        for (const DiffMode mode : {DiffMode::forward, DiffMode::vjp, DiffMode::jvp}) {
            EXPECT_GT(op.cost(spec, more, mode).bytes, op.cost(spec, kSize, mode).bytes);
        }
        OpSize wide = kSize;
        wide.k = 3;
        EXPECT_GT(op.cost(spec, wide, DiffMode::jvp).bytes, op.cost(spec, kSize, DiffMode::jvp).bytes);
        EXPECT_EQ(op.cost(spec, wide, DiffMode::forward).bytes, op.cost(spec, kSize, DiffMode::forward).bytes);
    });
}

TEST(Records, ScratchDoesNotShrinkWithThreadsOrTokens) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        OpSize more = kSize;
        more.rows *= 2;
        more.threads = 3;
        for (const DiffMode mode : {DiffMode::forward, DiffMode::vjp, DiffMode::jvp}) {
            const int64_t bytes = op.scratch_bytes(spec, kSize, mode);
            EXPECT_GE(bytes, 0);
            EXPECT_GE(op.scratch_bytes(spec, more, mode), bytes);
        }
    });
}

TEST(Records, InferTheSameTwice) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        OpSpec again = spec;
        op.infer(again);
        EXPECT_EQ(again.out, spec.out);
        EXPECT_EQ(again.saved, spec.saved);
        EXPECT_EQ(to_string(op, again), to_string(op, spec));
        EXPECT_TRUE(same_op(op, again, spec));
    });
}

TEST(Records, TellTheirAttributesApart) {
    for (const OpRecord* op : all_ops()) {
        SCOPED_TRACE(op->name);
        const std::vector<OpCase> cases = op->cases();
        EXPECT_EQ(op->same_attributes != nullptr, cases[0].spec.attrs.has_value());
        for (const OpCase& one : cases) {
            for (const OpCase& other : cases) {
                OpSpec first = one.spec, second = other.spec;
                op->infer(first);
                op->infer(second);
                if (to_string(*op, first) != to_string(*op, second)) {
                    EXPECT_FALSE(same_op(*op, first, second));
                }
            }
        }
    }
}

}  // namespace
}  // namespace windlass
