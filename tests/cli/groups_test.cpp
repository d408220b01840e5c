// Parameter groups through the real program: what is frozen is written as it was read, a log knows the groups of its
// run, and a run that goes on has those it began with.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<std::string> kGroups = {"--freeze",       "*.layers.0.*",
                                          "--param-groups", "*norm* weight_decay=0.2",
                                          "--param-groups", "lm_head.weight learning_rate_scale=0.25"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

class GroupRuns : public testing::Test {
  protected:
    void expect_refused(const Command& command, const testing::Matcher<std::string>& says) {
        const Finished finished = run(command);
        EXPECT_EQ(finished.code, static_cast<int>(ExitCode::usage)) << describe(finished);
        EXPECT_THAT(finished.err, says);
    }
    // Tensors of the first layer are those of the base, all others are not.
    void expect_frozen_layer(const Weights& weights, const std::string& base) {
        const Weights before = weights_in(base);
        ASSERT_EQ(weights.size(), before.size());
        for (const auto& [name, bytes] : weights)
            EXPECT_EQ(bytes == before.at(name), name.find(".layers.0.") != std::string::npos) << name;
    }
    Sandbox sandbox_;
};

TEST_F(GroupRuns, FrozenTensorsAreWrittenAsTheyWereRead) {
    for (const bool on_disk : {false, true}) {
        Settings settings = on_disk ? sandbox_.training_on_disk("llama") : sandbox_.training("llama");
        settings["learning_rate"] = "1e-2";
        const Finished finished = must_succeed(sandbox_.train(settings, with({"--overwrite"}, kGroups)));
        EXPECT_THAT(finished.out + finished.err, HasSubstr("parameters are trained"));
        expect_frozen_layer(weights_in(sandbox_.out() + "/final"), sandbox_.model("llama"));
        expect_refused(sandbox_.train(settings, {"--resume", "--max-steps", "4", "--freeze", "*.layers.1.*"}),
                       AllOf(HasSubstr("param_groups was [*.layers.0.* train=false, *norm* weight_decay=0.2"),
                             HasSubstr("is [*.layers.1.* train=false]")));
    }
}

TEST_F(GroupRuns, ALogIsReplayedWithTheGroupsOfItsRun) {
    for (const cli::ForwardOnlySetup& setup :
         {cli::ForwardOnlySetup{"llama", "zeroth_order"}, cli::ForwardOnlySetup{"llama", "forward_gradient", true}}) {
        Settings settings = settings_of(sandbox_, setup, 5);
        settings["learning_rate"] = "1e-2";
        must_succeed(sandbox_.train(settings, with({"--overwrite"}, kGroups)));
        const Weights final_weights = weights_in(sandbox_.out() + "/final");
        expect_frozen_layer(final_weights, sandbox_.model("llama"));
        EXPECT_TRUE(replayed(sandbox_, setup, 5) == final_weights) << setup.method;
        std::filesystem::remove_all(sandbox_ / "replayed-5");
        expect_refused(sandbox_.train(settings, {"--resume", "--max-steps", "6"}), HasSubstr("param_groups was ["));
    }
}

// A run that stops and goes on, from its log where nothing else is left.
TEST_F(GroupRuns, GoOnAsIfTheyHadNotStopped) {
    const cli::ForwardOnlySetup setup{"llama", "zeroth_order"};
    Settings settings = settings_of(sandbox_, setup, 6);
    settings["lr_scheduler_type"] = "constant_with_warmup";
    must_succeed(sandbox_.train(settings, kGroups));
    const ForwardOnlyOutcome straight = outcome_of(sandbox_);
    must_succeed(sandbox_.train(settings, with({"--resume=3"}, kGroups)));
    expect_same(outcome_of(sandbox_), straight);
}

TEST_F(GroupRuns, PatternsThatMatchNothingAreNamed) {
    const Settings settings = sandbox_.training("llama");
    expect_refused(
        sandbox_.train(settings, {"--freeze", "model.layer.*"}),
        AllOf(HasSubstr("freeze: \"model.layer.*\" matches none"), HasSubstr("model.layers.*.mlp.up_proj.weight")));
    expect_refused(sandbox_.train(settings, {"--freeze", "*"}), HasSubstr("no parameter is left to train"));
    expect_refused(sandbox_.train(settings, {"--param-groups", "*norm* train"}), HasSubstr("sets nothing"));
}

}  // namespace
}  // namespace windlass::cli
