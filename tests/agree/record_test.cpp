// Facts that hold for every record in the list.
#include <gtest/gtest.h>

#include "tests/agree/reference.h"

namespace windlass {
namespace {

const OpSize kSize{.rows = 2, .row_length = 16, .compute = DType::bf16};

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
        EXPECT_TRUE(cells.forward != nullptr && cells.backward != nullptr && cells.tangent != nullptr);
        ASSERT_TRUE(op->infer != nullptr && op->cost != nullptr && op->cases != nullptr);
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
        for (const Direction direction : {Direction::forward, Direction::backward, Direction::tangent}) {
            const Cost cost = op.cost(spec, kSize, direction);
            EXPECT_GT(cost.bytes, 0);
            EXPECT_GE(cost.flops, cost.model_flops);
            EXPECT_GE(cost.model_flops, 0);
        }
    });
}

TEST(Records, CostGrowsWithTokensAndDirections) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        OpSize more = kSize;
        more.rows *= 2;
        for (const Direction direction : {Direction::forward, Direction::backward, Direction::tangent}) {
            EXPECT_GT(op.cost(spec, more, direction).bytes, op.cost(spec, kSize, direction).bytes);
        }
        OpSize wide = kSize;
        wide.k = 3;
        EXPECT_GT(op.cost(spec, wide, Direction::tangent).bytes, op.cost(spec, kSize, Direction::tangent).bytes);
        EXPECT_EQ(op.cost(spec, wide, Direction::forward).bytes, op.cost(spec, kSize, Direction::forward).bytes);
    });
}

TEST(Records, ScratchDoesNotShrinkWithThreadsOrTokens) {
    for_every_case([](const OpRecord& op, const OpSpec& spec) {
        if (op.scratch_bytes == nullptr) return;
        OpSize more = kSize;
        more.rows *= 2;
        more.threads = 3;
        for (const Direction direction : {Direction::forward, Direction::backward, Direction::tangent}) {
            const int64_t bytes = op.scratch_bytes(spec, kSize, direction);
            EXPECT_GE(bytes, 0);
            EXPECT_GE(op.scratch_bytes(spec, more, direction), bytes);
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
    });
}

}  // namespace
}  // namespace windlass
