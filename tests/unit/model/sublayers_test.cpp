#include "model/sublayers.h"

#include <gmock/gmock.h>

#include "model/shortened.h"
#include "op/ops.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::ElementsAreArray;

ModelSpec golden_model(const std::string& name) {
    return build_folder(ModelFolder::open(real_files(), golden_folder(name)));
}

// Ops with the values and parameters that they name, as lines.
std::vector<std::string> lines_of(const ModelSpec& model, const Block& block) {
    std::vector<std::string> lines;
    for (const Node& node : block.program->nodes) {
        std::string line(node.op->name);
        for (const std::vector<int>* values : {&node.in, &node.out, &node.saved}) {
            for (const int value : *values) line += " " + block.program->values[static_cast<size_t>(value)].name;
        }
        for (const int weight : node.weights) {
            const int param = block.params[static_cast<size_t>(weight)];
            line += " " + model.params[static_cast<size_t>(param)].name;
        }
        lines.push_back(line);
    }
    return lines;
}

std::vector<std::string> all_lines(const ModelSpec& model) {
    std::vector<std::string> lines;
    for (const Block& block : model.blocks) {
        const std::vector<std::string> some = lines_of(model, block);
        lines.insert(lines.end(), some.begin(), some.end());
    }
    return lines;
}

bool attends(const Block& block) {
    const std::vector<Node>& nodes = block.program->nodes;
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.op == &kAttention; });
}

TEST(Sublayers, AreTheSameOpsOnTheSameParameters) {
    for (const std::string& name : golden_names()) {
        const ModelSpec whole = golden_model(name), parts = in_sublayers(whole);
        EXPECT_THAT(all_lines(parts), ElementsAreArray(all_lines(whole))) << name;
        EXPECT_EQ(lines_of(parts, parts.logits), lines_of(whole, whole.logits)) << name;
        EXPECT_EQ(global_offsets(parts), global_offsets(whole)) << name;
        EXPECT_EQ(parts.param_count(), whole.param_count()) << name;
    }
}

TEST(Sublayers, AreTwoALayer) {
    for (const std::string& name : golden_names()) {
        const ModelSpec whole = golden_model(name), parts = in_sublayers(whole);
        EXPECT_EQ(layer_count(parts), 2 * layer_count(whole)) << name;
        for (size_t index = 1; index + 1 < parts.blocks.size(); ++index) {
            EXPECT_EQ(parts.blocks[index].program->inputs.size(), 1u);
            EXPECT_EQ(parts.blocks[index].program->outputs.size(), 1u);
        }
        EXPECT_TRUE(attends(parts.blocks[1])) << name;
        EXPECT_FALSE(attends(parts.blocks[2])) << name;
    }
}

TEST(Sublayers, GiveEveryParameterItsFirstBlockAsHome) {
    const ModelSpec parts = in_sublayers(golden_model("gpt2"));
    for (size_t param = 0; param < parts.params.size(); ++param) {
        const auto uses = [&](const Block& block) {
            return std::find(block.params.begin(), block.params.end(), static_cast<int>(param)) != block.params.end();
        };
        const auto first = std::find_if(parts.blocks.begin(), parts.blocks.end(), uses);
        EXPECT_EQ(parts.params[param].block, first - parts.blocks.begin()) << parts.params[param].name;
    }
}

// A layer whose norm stands behind its sums goes with the products before it: it is no part of its own.
TEST(Sublayers, RepeatAndShareTheirPrograms) {
    for (const char* name : {"llama", "opt_post_norm"}) {
        const ModelSpec whole = golden_model(name), parts = in_sublayers(whole);
        ASSERT_GE(layer_count(whole), 2) << name;
        EXPECT_EQ(layer_period(whole), 1) << name;
        EXPECT_EQ(parts.blocks[1].program, parts.blocks[3].program) << name;
        EXPECT_NE(parts.blocks[1].program, parts.blocks[2].program) << name;
        EXPECT_EQ(layer_period(parts), layer_count(parts) >= 4 ? 2 : 1) << name;
    }
}

}  // namespace
}  // namespace windlass
