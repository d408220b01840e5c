#include "method/methods.h"

#include <set>

namespace windlass {
namespace {

TEST(Methods, AreFoundByTheirNames) {
    std::set<std::string_view> names;
    for (const Method* method : all_methods()) {
        EXPECT_TRUE(names.insert(method->name).second) << method->name;
        const Recipe recipe = make_recipe(method->name, {});
        EXPECT_EQ(recipe.name, method->name);
        EXPECT_FALSE(recipe.sweeps.empty());
        EXPECT_EQ(recipe.on_gradient == GradientRule::none, !recipe.runs(SweepKind::reverse)) << method->name;
    }
}

TEST(Methods, AnUnknownNameListsTheOthers) {
    try {
        make_recipe("sgd", {});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("there is no method \"sgd\""));
        for (const Method* method : all_methods())
            EXPECT_THAT(error.what(), testing::HasSubstr(std::string(method->name)));
    }
}

TEST(Methods, EvaluationChangesNothing) {
    const Recipe recipe = forward_recipe();
    EXPECT_TRUE(recipe.runs(SweepKind::forward));
    EXPECT_FALSE(recipe.runs(SweepKind::reverse));
    EXPECT_TRUE(recipe.state.empty());
    EXPECT_EQ(recipe.on_gradient, GradientRule::none);
}

// Bytes that outlive a step, beside the two halves of the master.
TEST(Methods, StateIsWhatTheirPapersSay) {
    const ParamSpec matrix{.name = "w", .shape = Shape{4096, 1024}};
    const auto state_bytes = [&](const char* name) {
        int64_t bytes = 0;
        for (const StateSpec& state : make_recipe(name, {}).state)
            bytes += state.elements(matrix) * dtype_bytes(state.dtype);
        return bytes;
    };
    EXPECT_EQ(state_bytes("adamw"), 8 * matrix.numel());
    EXPECT_EQ(state_bytes("lomo"), 0);
    EXPECT_EQ(state_bytes("zeroth_order"), 0);
    EXPECT_EQ(state_bytes("lsp"), 8 * 512 * 512);
    EXPECT_EQ(make_recipe("lsp", {}).state[0].elements({.name = "b", .shape = Shape{300}}), 300);
}

}  // namespace
}  // namespace windlass
