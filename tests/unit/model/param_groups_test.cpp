// Which parameters a group matches, what it says of them, and what is refused.
#include "model/param_groups.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelSpec grouped(const std::string& config, const std::vector<ParamGroup>& groups) {
    ModelSpec model = build_text(config);
    apply_param_groups(groups, "param_groups", model);
    return model;
}

const ParamSpec& param_of(const ModelSpec& model, std::string_view name) {
    const auto found = std::ranges::find(model.params, name, &ParamSpec::name);
    EXPECT_NE(found, model.params.end()) << name;
    return *found;
}

std::string refusal(const std::vector<ParamGroup>& groups, const std::string& golden = "llama") {
    try {
        grouped(golden_config(golden), groups);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(ParamGroups, TheFirstThatMatchesCounts) {
    const ModelSpec model = grouped(golden_config("llama"), {{.match = "*.layers.1.*norm*", .learning_rate_scale = 3},
                                                             {.match = "*norm*", .weight_decay = 0.5},
                                                             {.match = "*.layers.1.*", .train = false},
                                                             {.match = "lm_head.weight", .weight_decay = 0}});
    const ParamSpec& both = param_of(model, "model.layers.1.input_layernorm.weight");
    EXPECT_EQ(both.learning_rate_scale, 3);
    EXPECT_EQ(both.weight_decay, std::nullopt);
    EXPECT_TRUE(both.trainable);
    EXPECT_FALSE(both.decay) << "the rule of norms holds";
    const ParamSpec& norm = param_of(model, "model.norm.weight");
    EXPECT_EQ(norm.weight_decay, 0.5);
    EXPECT_TRUE(norm.decay) << "what a group says holds for norms too";
    EXPECT_FALSE(param_of(model, "model.layers.1.mlp.up_proj.weight").trainable);
    const ParamSpec& head = param_of(model, "lm_head.weight");
    EXPECT_EQ(head.weight_decay, 0);
    EXPECT_FALSE(head.decay);
    const ParamSpec& other = param_of(model, "model.layers.0.mlp.up_proj.weight");
    EXPECT_EQ(other.learning_rate_scale, 1);
    EXPECT_TRUE(other.trainable && other.decay);
}

// The files of gpt2 hold its tied table under one name, and a family may hold it under the other, or both.
TEST(ParamGroups, ATiedTableHasTwoNames) {
    for (const char* name : {"lm_head.weight", "transformer.wte.weight", "lm_*", "*wte*"}) {
        const ModelSpec model = grouped(golden_config("gpt2"), {{.match = name, .learning_rate_scale = 0.5}});
        EXPECT_EQ(param_of(model, "transformer.wte.weight").learning_rate_scale, 0.5) << name;
    }
    EXPECT_THAT(refusal({{.match = "lm_head.weight", .train = false}, {.match = "*.wte.weight"}}, "gpt2"),
                HasSubstr("\"*.wte.weight\" matches belongs to groups before it"));
    const ModelSpec apart = grouped(golden_config("llama"), {{.match = "lm_head.weight", .train = false}});
    EXPECT_TRUE(param_of(apart, "model.embed_tokens.weight").trainable);
}

TEST(ParamGroups, NoneLeavesAModelAsItIs) {
    const ModelSpec plain = build_text(golden_config("llama")), model = grouped(golden_config("llama"), {});
    EXPECT_EQ(trained_count(model), plain.param_count());
    EXPECT_EQ(model.blocks[1].program, model.blocks[2].program);
}

TEST(ParamGroups, BlocksThatTrainOtherParametersHaveProgramsOfTheirOwn) {
    const std::string config = golden_config("llama", {{"num_hidden_layers", 5}});
    const ModelSpec model = grouped(config, {{.match = "*.layers.[12].*", .train = false}, {.match = "*.layers.3.*"}});
    const auto program = [&](int layer) { return model.blocks[static_cast<size_t>(layer) + 1].program; };
    EXPECT_EQ(program(0), program(3)) << "another rate is no other program";
    EXPECT_EQ(program(0), program(4));
    EXPECT_EQ(program(1), program(2));
    EXPECT_NE(program(0), program(1));
    EXPECT_EQ(program(0)->to_string(), program(1)->to_string());
}

TEST(ParamGroups, SayWhatTheyCannotMean) {
    EXPECT_THAT(refusal({{.match = "model.layer.0.mlp.up_proj.weight"}}),
                AllOf(HasSubstr("param_groups"), HasSubstr("matches none of the model's 21 parameters"),
                      HasSubstr("model.layers.0.mlp.up_proj.weight")));
    EXPECT_THAT(refusal({{.match = "encoder.*"}}),
                AllOf(HasSubstr("model.layers.*.mlp.up_proj.weight"), HasSubstr("lm_head.weight")));
    EXPECT_THAT(refusal({{.match = "*mlp*"}, {.match = "*.0.mlp.*"}}),
                AllOf(HasSubstr("\"*.0.mlp.*\""), HasSubstr("the first that matches counts")));
    EXPECT_THAT(refusal({{.match = "*", .train = false}}), HasSubstr("no parameter is left to train"));
}

}  // namespace
}  // namespace windlass
