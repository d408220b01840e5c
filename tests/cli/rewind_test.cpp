// Forward-only runs that look back, through the real program: undone to any step, branched from any step, and with
// moments of the last steps, which a run that goes on has to know again.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const Settings kAdam = {{"zo_optimizer", "adam"},
                        {"replay_window", "4"},
                        {"adam_epsilon", "1e-6"},
                        {"lr_scheduler_type", "constant_with_warmup"}};

Settings with(Settings settings, const Settings& changes) {
    for (const auto& [key, value] : changes) settings[key] = value;
    return settings;
}

class Rewind : public testing::TestWithParam<ForwardOnlySetup> {
  protected:
    Settings settings(int64_t steps, const Settings& changes = {}) {
        return with(with(settings_of(sandbox_, GetParam(), steps), optimizer()), changes);
    }
    ForwardOnlyOutcome expected(int64_t steps, const Settings& changes = {}) {
        return uninterrupted(GetParam(), steps, with(optimizer(), changes));
    }
    // What stays beside weights has no moments.
    static Settings optimizer() {
        return GetParam().merges.empty() ? kAdam : Settings{{"lr_scheduler_type", "constant_with_warmup"}};
    }
    static bool folds_by_window() { return GetParam().merges == "per_window"; }  // of five steps
    Sandbox sandbox_;
};

TEST_P(Rewind, UndoesToAStepThatNobodySaved) {
    const Settings saves = {{"save_steps", "4"}};
    const ForwardOnlyOutcome straight = expected(10, saves);
    must_succeed(sandbox_.train(settings(10, saves)));
    const std::string said = must_succeed(sandbox_.train(settings(7, saves), {"--resume=6"})).err;
    EXPECT_THAT(said, HasSubstr("cut off after step 6; it held steps up to 10"));
    EXPECT_TRUE(fs::exists(sandbox_.out() + "/undone-checkpoint-8"));
    EXPECT_TRUE(fs::exists(sandbox_.out() + "/undone-checkpoint-10"));
    EXPECT_TRUE(fs::exists(sandbox_.out() + "/checkpoint-4"));
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/checkpoint-8"));
    must_succeed(sandbox_.train(settings(10, saves), {"--resume"}));  // what was undone is in nobody's way
    expect_same(outcome_of(sandbox_), straight);
    EXPECT_TRUE(replayed(sandbox_, GetParam(), 10) == straight.weights);
}

TEST_P(Rewind, UndoesToAStepBeforeEveryCheckpoint) {
    const ForwardOnlyOutcome straight = expected(7);
    must_succeed(sandbox_.train(settings(7)));
    fs::remove_all(sandbox_ / "ssd");
    for (const char* step : {"--resume=5", "--resume=0"}) {
        must_succeed(sandbox_.train(settings(7), {step}));
        expect_same(outcome_of(sandbox_), straight);
        fs::remove_all(sandbox_ / "ssd");
    }
}

TEST_P(Rewind, SkipsADamagedCheckpoint) {
    const Settings saves = {{"save_steps", "3"}};
    const ForwardOnlyOutcome straight = expected(7, saves);
    must_succeed(sandbox_.train(settings(7, saves)));
    flip_byte(sandbox_.out() + "/checkpoint-6/state.wls", -1);
    const std::string said = must_succeed(sandbox_.train(settings(7, saves), {"--resume=6"})).err;
    EXPECT_THAT(said, HasSubstr("skipped: "));
    EXPECT_THAT(said, HasSubstr(folds_by_window() ? "steps 1 to 5 are taken from the log"
                                                  : "steps 4 to 6 are taken from the log"));
    expect_same(outcome_of(sandbox_), straight);
}

// Killed where updates are many steps from home, and in the middle of a window.
TEST_P(Rewind, KilledRunsKnowTheirWindowAgain) {
    constexpr int64_t kSteps = 30;
    const Settings changes = folds_by_window() ? Settings{} : Settings{{"writeback_steps", "7"}};
    const ForwardOnlyOutcome straight = expected(kSteps, changes);
    const size_t first = kill_after(sandbox_, settings(kSteps, changes), {}, 10);
    kill_after(sandbox_, settings(kSteps, changes), {"--resume"}, first + 4);
    must_succeed(sandbox_.train(settings(kSteps, changes), {"--resume"}));
    expect_same(outcome_of(sandbox_), straight);
    EXPECT_TRUE(replayed(sandbox_, GetParam(), kSteps) == straight.weights);
}

TEST_P(Rewind, BranchesFromAnyStep) {
    const Settings saves = {{"save_steps", "4"}};
    must_succeed(sandbox_.train(settings(8, saves)));
    const ForwardOnlyOutcome run = outcome_of(sandbox_);
    const auto branch = [&](const char* name, const char* from, const Settings& changes) {
        Settings branched = settings(8, changes);
        branched["output_dir"] = sandbox_ / name;
        branched["branch_from"] = sandbox_.out() + from;
        must_succeed(sandbox_.train(branched));
        return weights_in(sandbox_ / name + "/final");
    };
    EXPECT_TRUE(branch("same", "@6", {}) == run.weights);
    EXPECT_TRUE(branch("early", "@2", {}) == run.weights);
    EXPECT_TRUE(branch("saved", "@4", {}) == run.weights);
    EXPECT_TRUE(branch("last", "", {}) == run.weights);
    EXPECT_EQ(metrics_of(sandbox_ / "same"), run.metrics);
    const Weights other = branch("other", "@6", {{"learning_rate", "2e-4"}});
    EXPECT_FALSE(other == run.weights);
    expect_same(outcome_of(sandbox_), run);  // which is left alone
    const TrajectoryReader log = TrajectoryReader::open(real_files(), sandbox_ / "other/trajectory.wlt");
    EXPECT_EQ(log.header().origin.value().step, 6);
    EXPECT_EQ(log.last_step(), 8);
    must_succeed(sandbox_.windlass(
        {"replay", sandbox_ / GetParam().model, sandbox_ / "other/trajectory.wlt", "--to", sandbox_ / "replayed"}));
    EXPECT_TRUE(weights_in(sandbox_ / "replayed") == other);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, Rewind,
    testing::Values(ForwardOnlySetup{"llama_tiny", "zeroth_order"}, ForwardOnlySetup{"gpt2", "forward_gradient", true},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true, "right", "", "per_window"},
                    ForwardOnlySetup{"gpt2", "zeroth_order", false, "both", "", "never"}),
    name_of_forward_only);

class RewindErrors : public testing::Test {
  protected:
    Settings settings() { return settings_of(sandbox_, ForwardOnlySetup{"gpt2", "zeroth_order"}, 4); }
    void expect_refused(const Settings& settings, const std::vector<std::string>& more, const char* part) {
        const Finished finished = run(sandbox_.train(settings, more));
        EXPECT_EQ(finished.code, 2) << describe(finished);
        EXPECT_THAT(finished.err, HasSubstr(part));
    }
    Sandbox sandbox_;
};

TEST_F(RewindErrors, AStepThatTheLogDoesNotHold) {
    must_succeed(sandbox_.train(settings()));
    expect_refused(settings(), {"--resume=5"}, "has no checkpoint of step 5, and its log holds steps 1 to 4");
    expect_refused(settings(), {"--resume=99999999999999999999"}, "has no checkpoint of step 99999999999999999999");
    Settings branch = settings();
    branch["output_dir"] = sandbox_ / "branch";
    branch["branch_from"] = sandbox_.out() + "@9";
    expect_refused(branch, {}, "its log holds steps 1 to 4");
    EXPECT_FALSE(fs::exists(sandbox_ / "branch/trajectory.wlt"));
    branch["branch_from"] = sandbox_.out() + "@last";
    expect_refused(branch, {}, "\"last\" is no step");
    branch["branch_from"] = sandbox_ / "nowhere";
    expect_refused(branch, {}, "has no trajectory log");
    branch = settings();
    branch["branch_from"] = sandbox_.out() + "@2";
    expect_refused(branch, {"--overwrite"}, "is output_dir itself");
    EXPECT_TRUE(fs::exists(log_of(sandbox_)));
}

TEST_F(RewindErrors, AnotherOptimizerIsAnotherRun) {
    Settings run = with(settings(), kAdam);
    must_succeed(sandbox_.train(run));
    run["max_steps"] = "6";
    expect_refused(with(run, {{"replay_window", "5"}}), {"--resume"}, "replay_window was 4, is 5");
    expect_refused(with(run, {{"adam_beta2", "0.5"}}), {"--resume"}, "adam_beta2 was 0.999, is 0.5");
    run.erase("replay_window");
    expect_refused(with(run, {{"zo_optimizer", "sgd"}}), {"--resume"}, "zo_optimizer was adam, is sgd");
}

TEST_F(RewindErrors, MomentsOfNothing) {
    expect_refused(with(settings(), {{"replay_window", "9"}}), {},
                   "replay_window has no meaning with zo_optimizer sgd");
    expect_refused(with(settings(), {{"zo_optimizer", "adam"}, {"adam_epsilon", "0"}}), {}, "divides by adam_epsilon");
    expect_refused(with(settings(), {{"zo_optimizer", "momentum"}, {"method", "adamw"}}), {}, "method is adamw");
}

TEST_F(RewindErrors, AnExportOfAStepThatOnlyTheLogHolds) {
    must_succeed(sandbox_.train(settings()));
    const Finished finished = run(sandbox_.windlass({"export", sandbox_.out() + ":3", "--to", sandbox_ / "exported"}));
    EXPECT_EQ(finished.code, 2) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("--step 3 --to DIR"));
}

}  // namespace
}  // namespace windlass::cli
