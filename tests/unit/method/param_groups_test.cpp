// Which parameters a group matches, what it says of them, and what is refused.
#include "method/param_groups.h"

#include <gmock/gmock.h>

#include "base/json.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainedModel grouped(const std::string& config, const std::vector<ParamGroup>& groups) {
    TrainedModel model(build_text(config));
    apply_param_groups(groups, "param_groups", model);
    return model;
}

const ParamTraining& training_of(const TrainedModel& model, std::string_view name) {
    const auto found = std::ranges::find(model.params, name, &ParamSpec::name);
    EXPECT_NE(found, model.params.end()) << name;
    return model.training[static_cast<size_t>(found - model.params.begin())];
}

std::string group_refusal(const std::vector<ParamGroup>& groups, const std::string& golden = "llama") {
    try {
        grouped(golden_config(golden), groups);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(ParamGroups, TheFirstThatMatchesCounts) {
    const TrainedModel model =
        grouped(golden_config("llama"), {{.match = "*.layers.1.*norm*", .learning_rate_scale = 3},
                                         {.match = "*norm*", .weight_decay = 0.5},
                                         {.match = "*.layers.1.*", .train = false},
                                         {.match = "lm_head.weight", .weight_decay = 0}});
    const ParamTraining& both = training_of(model, "model.layers.1.input_layernorm.weight");
    EXPECT_EQ(both.learning_rate_scale, 3);
    EXPECT_EQ(both.weight_decay, std::nullopt);
    EXPECT_TRUE(both.trains);
    EXPECT_FALSE(both.decays) << "the rule of norms holds";
    const ParamTraining& norm = training_of(model, "model.norm.weight");
    EXPECT_EQ(norm.weight_decay, 0.5);
    EXPECT_TRUE(norm.decays) << "what a group says holds for norms too";
    EXPECT_FALSE(training_of(model, "model.layers.1.mlp.up_proj.weight").trains);
    const ParamTraining& head = training_of(model, "lm_head.weight");
    EXPECT_EQ(head.weight_decay, 0);
    EXPECT_FALSE(head.decays);
    const ParamTraining& other = training_of(model, "model.layers.0.mlp.up_proj.weight");
    EXPECT_EQ(other.learning_rate_scale, 1);
    EXPECT_TRUE(other.trains && other.decays);
}

// The files of gpt2 hold its tied table under one name, and a family may hold it under the other, or both.
TEST(ParamGroups, ATiedTableHasTwoNames) {
    for (const char* name : {"lm_head.weight", "transformer.wte.weight", "lm_*", "*wte*"}) {
        const TrainedModel model = grouped(golden_config("gpt2"), {{.match = name, .learning_rate_scale = 0.5}});
        EXPECT_EQ(training_of(model, "transformer.wte.weight").learning_rate_scale, 0.5) << name;
    }
    EXPECT_THAT(group_refusal({{.match = "lm_head.weight", .train = false}, {.match = "*.wte.weight"}}, "gpt2"),
                HasSubstr("\"*.wte.weight\" matches belongs to groups before it"));
    const TrainedModel apart = grouped(golden_config("llama"), {{.match = "lm_head.weight", .train = false}});
    EXPECT_TRUE(training_of(apart, "model.embed_tokens.weight").trains);
}

TEST(ParamGroups, NoneLeavesAModelAsItIs) {
    const ModelSpec plain = build_text(golden_config("llama"));
    const TrainedModel model = grouped(golden_config("llama"), {});
    EXPECT_EQ(trained_count(model), plain.param_count());
    EXPECT_EQ(model.blocks[1].program, model.blocks[2].program);
}

TEST(ParamGroups, BlocksThatTrainOtherParametersHaveProgramsOfTheirOwn) {
    const std::string config = golden_config("llama", {{"num_hidden_layers", 5}});
    const TrainedModel model =
        grouped(config, {{.match = "*.layers.[12].*", .train = false}, {.match = "*.layers.3.*"}});
    const auto program = [&](int layer) { return model.blocks[static_cast<size_t>(layer) + 1].program; };
    EXPECT_EQ(program(0), program(3)) << "another rate is no other program";
    EXPECT_EQ(program(0), program(4));
    EXPECT_EQ(program(1), program(2));
    EXPECT_NE(program(0), program(1));
    EXPECT_EQ(program(0)->to_string(), program(1)->to_string());
}

TEST(ParamGroups, SayWhatTheyCannotMean) {
    EXPECT_THAT(group_refusal({{.match = "model.layer.0.mlp.up_proj.weight"}}),
                AllOf(HasSubstr("param_groups"), HasSubstr("matches none of the model's 21 parameters"),
                      HasSubstr("model.layers.0.mlp.up_proj.weight")));
    EXPECT_THAT(group_refusal({{.match = "encoder.*"}}),
                AllOf(HasSubstr("model.layers.*.mlp.up_proj.weight"), HasSubstr("lm_head.weight")));
    EXPECT_THAT(group_refusal({{.match = "*mlp*"}, {.match = "*.0.mlp.*"}}),
                AllOf(HasSubstr("\"*.0.mlp.*\""), HasSubstr("the first that matches counts")));
    EXPECT_THAT(group_refusal({{.match = "*", .train = false}}), HasSubstr("no parameter is left to train"));
}

}  // namespace
}  // namespace windlass
