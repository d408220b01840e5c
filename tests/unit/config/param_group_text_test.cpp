// Parameter groups as they are written: on the command line, in files, in logs.
#include "config/param_group_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "state/trajectory_settings.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ParamGroup group_of(std::string_view text) {
    ParamGroup group;
    EXPECT_EQ(read_param_group(text, group), "") << text;
    return group;
}
std::string problem_of(std::string_view text) {
    ParamGroup group;
    return read_param_group(text, group);
}

TEST(ParamGroupText, IsAPatternAndWhatItSets) {
    EXPECT_EQ(group_of("*norm*"), (ParamGroup{.match = "*norm*"}));
    EXPECT_EQ(group_of("  a.b\tlearning_rate_scale=0.1  weight_decay=1e-3 train=true "),
              (ParamGroup{"a.b", true, 0.1, 1e-3}));
    EXPECT_EQ(group_of("lm_head.weight train=false"), (ParamGroup{.match = "lm_head.weight", .train = false}));
    EXPECT_EQ(group_of("*.[0-3].* weight_decay=0"), (ParamGroup{.match = "*.[0-3].*", .weight_decay = 0}));
}

TEST(ParamGroupText, IsTheSameForEqualGroups) {
    for (const char* text : {"*norm*", "a train=false", "b learning_rate_scale=0.1", "c weight_decay=0",
                             "d learning_rate_scale=1e-07 weight_decay=0.3333333333333333"})
        EXPECT_EQ(param_group_text(group_of(text)), text);
    EXPECT_EQ(param_group_text(group_of(" x train=true weight_decay=0.10 learning_rate_scale=1.0")),
              "x weight_decay=0.1");
    EXPECT_EQ(param_group_text(group_of("x weight_decay=3 train=false")), "x train=false");
}

TEST(ParamGroupText, SaysWhatIsWrong) {
    EXPECT_THAT(problem_of("  "), HasSubstr("a group begins with a pattern of names"));
    EXPECT_THAT(problem_of("a frozen"), AllOf(HasSubstr("\"frozen\" sets nothing"), HasSubstr("a train=false")));
    EXPECT_THAT(problem_of("a weight_deccay=1"), HasSubstr("Did you mean \"weight_decay\"?"));
    EXPECT_THAT(problem_of("a x=1"), HasSubstr("only train, learning_rate_scale, weight_decay"));
    EXPECT_THAT(problem_of("a train=maybe"), HasSubstr("expected true or false"));
    EXPECT_THAT(problem_of("a train=true train=true"), HasSubstr("train is set twice"));
    EXPECT_THAT(problem_of(std::string(300, 'a')), HasSubstr("a pattern of 300 characters, at most 256"));
    for (const char* bad : {"-1", "nan", "inf", "1e9", "1x", ""})
        EXPECT_THAT(problem_of(fmt::format("a learning_rate_scale={}", bad)),
                    AllOf(HasSubstr(fmt::format("is \"{}\"", bad)), HasSubstr("a number from 0 to")));
}

// ---- configuration ----

class GroupConfig : public testing::Test {
  protected:
    Config read(const std::string& yaml, std::vector<std::string> words = {}) {
        write_text_atomic(real_files(), folder_ / "run.yaml",
                          "model: m\noutput_dir: o\ntrain_data: [r.jsonl]\n" + yaml);
        words.insert(words.begin(), folder_ / "run.yaml");
        return make_config(read_config_sources(real_files(), words), ConfigUse::train).config;
    }
    std::string problem(const std::string& yaml, const std::vector<std::string>& words = {}) {
        try {
            read(yaml, words);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        return "";
    }
    const TempFolder folder_;
};

const std::vector<ParamGroup> kThree = {
    {.match = "*embed*", .train = false}, {.match = "*norm*", .weight_decay = 0}, {"lm_head.*", true, 0.1, 0.5}};

TEST_F(GroupConfig, FilesHoldObjectsOrLines) {
    EXPECT_EQ(param_groups_of(read("param_groups:\n"
                                   "  - {match: \"*embed*\", train: false}\n"
                                   "  - match: \"*norm*\"\n    weight_decay: 0\n"
                                   "  - weight_decay: 0.5\n    learning_rate_scale: 0.1\n    match: lm_head.*\n")),
              kThree);
    EXPECT_EQ(param_groups_of(read("freeze: [\"*embed*\"]\n"
                                   "param_groups: [\"*norm* weight_decay=0\", \"lm_head.* learning_rate_scale=0.1 "
                                   "weight_decay=0.5\"]\n")),
              kThree);
    EXPECT_THAT(param_groups_of(read("")), IsEmpty());
}

TEST_F(GroupConfig, TheCommandLineTakesThemOneByOneOrAsAList) {
    EXPECT_EQ(param_groups_of(read("", {"--param-groups", "*norm* weight_decay=0", "--freeze=*embed*", "--param-groups",
                                        "lm_head.* learning_rate_scale=0.1 weight_decay=0.5"})),
              kThree);
    EXPECT_EQ(param_groups_of(read("", {"param_groups=[{match: \"*embed*\", train: false}, \"*norm* weight_decay=0\", "
                                        "\"lm_head.* weight_decay=0.5 learning_rate_scale=0.1\"]"})),
              kThree);
}

TEST_F(GroupConfig, ReadsBackWhatItWrote) {
    const Config written = read("freeze: [\"*embed*\"]\nparam_groups: [{match: \"*norm*\", weight_decay: 0}]\n");
    write_text_atomic(real_files(), folder_ / "again.yaml", config_to_yaml(written));
    const std::vector<std::string> words = {folder_ / "again.yaml"};
    const Config again = make_config(read_config_sources(real_files(), words), ConfigUse::train).config;
    EXPECT_EQ(param_groups_of(again), param_groups_of(written));
}

TEST_F(GroupConfig, RefusesWhatIsNoGroup) {
    EXPECT_THAT(problem("param_groups: [{weight_decay: 0}]\n"), HasSubstr("a group has no \"match\""));
    EXPECT_THAT(problem("param_groups: [{match: a, lr: 1}]\n"), HasSubstr("a group has no \"lr\""));
    EXPECT_THAT(problem("param_groups: [{match: a, train: [1]}]\n"), HasSubstr("single values only"));
    EXPECT_THAT(problem("param_groups: [{match: \"a b\"}]\n"), HasSubstr("expected one word"));
    EXPECT_THAT(problem("freeze: [{match: a}]\n"), HasSubstr("single values only"));
    EXPECT_THAT(problem("param_groups: [\"a weight_decay=x\"]\n"), HasSubstr("weight_decay is \"x\""));
    EXPECT_THAT(problem("freeze: [\"a b\"]\n"), HasSubstr("\"a b\" is not a pattern of names"));
    EXPECT_THAT(problem("freeze: [\"\"]\n"), HasSubstr("is not a pattern of names"));
    EXPECT_THAT(problem("freeze_trainable_layers: 2\n"), HasSubstr("param_groups"));
    std::string many = "freeze: [a";
    for (size_t i = 0; i < kParamGroupsMax; ++i) many += ", a";
    EXPECT_THAT(problem(many + "]\n"), HasSubstr("257 groups, at most 256"));
}

// ---- logs ----

TrainedModel two_params() {
    return lone_model({ParamSpec{.name = "a.weight", .shape = {3, 2}}, {.name = "b.weight", .shape = {5}}});
}

TrajectoryHeader header_with(const std::vector<ParamGroup>& groups) {
    TrainedModel model = two_params();
    apply_param_groups(groups, "groups", model);
    return {.method = "zeroth_order",
            .settings = trajectory_settings({.param_groups = param_group_texts(model)}, model)};
}

TEST(ParamGroupsInLogs, SayHowEachParameterWasTrained) {
    const std::vector<ParamGroup> groups = {{"b.*", true, 0.1, 0.3}, {.match = "a.*", .learning_rate_scale = 1.0 / 3}};
    TrainedModel model = two_params();
    read_param_groups(header_with(groups), "log", model);
    EXPECT_EQ(model.groups, groups);
    EXPECT_EQ(model.training[0].learning_rate_scale, 1.0 / 3);
    EXPECT_EQ(model.training[1].weight_decay, 0.3);
    TrainedModel plain = two_params();
    read_param_groups(header_with({}), "log", plain);
    EXPECT_THAT(plain.groups, IsEmpty());
}

TEST(ParamGroupsInLogs, DifferIfARunGoesOnWithOthers) {
    const TrajectoryHeader none = header_with({}), frozen = header_with({{.match = "b.*", .train = false}});
    const Identity was = logged_identity(none, "log"), is = logged_identity(frozen, "log");
    EXPECT_THAT(differences(was, was), IsEmpty());
    EXPECT_THAT(differences(is, is), IsEmpty());
    ASSERT_EQ(differences(was, is).size(), 1u);
    EXPECT_EQ(differences(was, is)[0].text(), "param_groups was [], is [b.* train=false]");
}

TEST(ParamGroupsInLogs, RefuseDamage) {
    for (const char* text : {"3", "[3]", R"([""])", R"(["a.* weight_decay=-1"])", R"(["c.*"])"}) {
        TrainedModel model = two_params();
        const TrajectoryHeader header{.method = "zeroth_order",
                                      .settings = fmt::format(R"({{"format": 1, "param_groups": {}}})", text)};
        EXPECT_THROW(read_param_groups(header, "log", model), UserError) << text;
    }
}

}  // namespace
}  // namespace windlass
