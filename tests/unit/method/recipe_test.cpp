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
        EXPECT_FALSE(recipe.passes.empty());
        EXPECT_NE(recipe.probes(), recipe.runs(PassKind::backward)) << method->name;
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
    EXPECT_TRUE(recipe.runs(PassKind::forward));
    EXPECT_FALSE(recipe.runs(PassKind::backward));
    EXPECT_TRUE(recipe.state.empty());
}

// Bytes that outlive a step, beside the two halves of the master.
TEST(Methods, StateIsWhatTheirPapersSay) {
    const ParamSpec matrix{.name = "w", .shape = Shape{4096, 1024}};
    const auto bytes_of = [&](const char* name, StateFormat format = StateFormat::fp32) {
        int64_t bytes = 0;
        for (const StateSpec& state : make_recipe(name, {.state_format = format}).state)
            bytes += state_bytes(state, matrix, 0, matrix.numel());
        return bytes;
    };
    EXPECT_EQ(bytes_of("adamw"), 8 * matrix.numel());
    EXPECT_EQ(bytes_of("adamw", StateFormat::bf16), 4 * matrix.numel());
    EXPECT_EQ(bytes_of("adamw", StateFormat::int8), 2 * matrix.numel() + 8 * matrix.numel() / 256);
    EXPECT_EQ(bytes_of("zeroth_order"), 0);
    EXPECT_EQ(bytes_of("lomo"), 0);
    EXPECT_EQ(bytes_of("adalomo"), 4 * (4096 + 1024));
}

// Its first chunk has all of it, and a vector is one of rows.
TEST(Methods, StateOfRowsAndColumnsIsThatOfAWholeParameter) {
    const ParamSpec matrix{.name = "w", .shape = Shape{40, 30}}, vector{.name = "b", .shape = Shape{40}};
    const StateSpec row{.name = "row", .of = StatePer::row}, column{.name = "column", .of = StatePer::column};
    EXPECT_EQ(state_bytes(row, matrix, 0, 100), 160);
    EXPECT_EQ(state_bytes(column, matrix, 0, 100), 120);
    EXPECT_EQ(state_bytes(row, matrix, 100, 1100), 0);
    EXPECT_EQ(state_bytes(row, vector, 0, 40), 160);
    EXPECT_EQ(state_bytes(column, vector, 0, 40), 0);
}

TEST(Methods, AGroupOfStateThatIsNotFullTakesItsWholeRoom) {
    const StateSpec scale{"m_scale", 4, 256};
    EXPECT_EQ(state_bytes(scale, 0), 0);
    EXPECT_EQ(state_bytes(scale, 1), 4);
    EXPECT_EQ(state_bytes(scale, 256), 4);
    EXPECT_EQ(state_bytes(scale, 257), 8);
}

TEST(Methods, StateFormatsAreFoundByTheirNames) {
    for (const StateFormat format : kStateFormats) EXPECT_EQ(state_format_from_name(state_format_name(format)), format);
    EXPECT_EQ(state_format_from_name("s4"), std::nullopt);
}

}  // namespace
}  // namespace windlass
