// Forward-only runs, through the real program: the log that they write, weights that are made again from it, and runs
// that go on from it after being killed.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ForwardOnly : public testing::TestWithParam<ForwardOnlySetup> {};

TEST_P(ForwardOnly, ReplaysTheWeightsOfEveryCheckpointAndOfTheEnd) {
    constexpr int64_t kSteps = 7;
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), kSteps);
    settings["save_steps"] = "3";
    must_succeed(sandbox.train(settings));
    EXPECT_EQ(TrajectoryReader::open(real_files(), log_of(sandbox)).count(), kSteps);
    const Weights base = weights_in(sandbox / GetParam().model), last = weights_in(sandbox.out() + "/final");
    ASSERT_TRUE(base != last);
    const bool is_narrow = !GetParam().storage.empty(),
               freezes = GetParam().storage == "nf4" && GetParam().merges.empty();
    EXPECT_EQ(replayed(sandbox, GetParam(), 0) == base, !is_narrow || freezes)
        << "rounded where what is trained is kept in fewer bits";
    for (const int64_t step : {3, 6}) {
        const Weights saved = weights_in(fmt::format("{}/checkpoint-{}/model", sandbox.out(), step));
        EXPECT_TRUE(saved != last);
        EXPECT_TRUE(replayed(sandbox, GetParam(), step) == saved) << "step " << step;
    }
    EXPECT_TRUE(replayed(sandbox, GetParam(), kSteps) == last);
    must_succeed(sandbox.windlass({"replay", sandbox / GetParam().model, log_of(sandbox), "--to", sandbox / "newest"}));
    EXPECT_TRUE(weights_in(sandbox / "newest") == last);
}

TEST_P(ForwardOnly, KilledRunsGoOnWhereTheLogEnds) {
    constexpr int64_t kSteps = 40;
    for (const char* save_steps : {"null", "7"}) {
        const ForwardOnlyOutcome expected = uninterrupted(GetParam(), kSteps, {{"save_steps", save_steps}});
        Sandbox sandbox;
        Settings settings = settings_of(sandbox, GetParam(), kSteps);
        settings["save_steps"] = save_steps;
        const size_t first = kill_after(sandbox, settings, {}, 10);
        const size_t second = kill_after(sandbox, settings, {"--resume"}, first + 5);
        EXPECT_GE(second, first + 5);  // what was spoken of was not lost
        const std::string said = must_succeed(sandbox.train(settings, {"--resume"})).err;
        const bool has_base_only = !GetParam().on_disk && settings["save_steps"] == "null";
        EXPECT_EQ(said.find("steps 1 to ") != std::string::npos, has_base_only) << said;
        expect_same(outcome_of(sandbox), expected);
        EXPECT_TRUE(replayed(sandbox, GetParam(), kSteps) == expected.weights);
        EXPECT_THAT(unfinished_in(sandbox.path()), testing::IsEmpty());
    }
}

TEST_P(ForwardOnly, GoesOnFromTheLogWhenTheStoreIsGone) {
    const Settings constant = {{"lr_scheduler_type", "constant_with_warmup"}};
    const ForwardOnlyOutcome expected = uninterrupted(GetParam(), 12, constant);
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 6);
    settings["lr_scheduler_type"] = "constant_with_warmup";
    must_succeed(sandbox.train(settings));
    fs::remove_all(sandbox / "ssd");
    settings["max_steps"] = "12";
    const std::string said = must_succeed(sandbox.train(settings, {"--resume"})).err;
    const bool by_window = GetParam().merges == "per_window";  // of five steps
    EXPECT_THAT(said, HasSubstr(fmt::format("steps 1 to {} are taken from the log", by_window ? 5 : 6)));
    expect_same(outcome_of(sandbox), expected);
}

// An older checkpoint by name: the log forgets what came after it.
TEST_P(ForwardOnly, ResumingAnOlderCheckpointCutsTheLog) {
    const Settings saves = {{"save_steps", "4"}};
    const ForwardOnlyOutcome expected = uninterrupted(GetParam(), 10, saves);
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 10);
    settings["save_steps"] = "4";
    must_succeed(sandbox.train(settings));
    const std::string said = must_succeed(sandbox.train(settings, {"--resume=4"})).err;
    EXPECT_THAT(said, HasSubstr("cut off after step 4; it held steps up to 10"));
    expect_same(outcome_of(sandbox), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, ForwardOnly,
    testing::Values(ForwardOnlySetup{"llama_tiny", "zeroth_order"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true}, ForwardOnlySetup{"gpt2", "zeroth_order"},
                    ForwardOnlySetup{"gpt2", "forward_gradient"},
                    ForwardOnlySetup{"gpt2", "forward_gradient", true, "both"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true, "right"},
                    ForwardOnlySetup{"gpt2", "forward_gradient", false, "both", "f8"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true, "", "nf4"},
                    ForwardOnlySetup{"gpt2", "forward_gradient", false, "both", "nf4"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true, "right", "", "per_window"},
                    ForwardOnlySetup{"gpt2", "forward_gradient", false, "right", "f8", "per_window"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", false, "both", "", "never"},
                    ForwardOnlySetup{"gpt2", "forward_gradient", true, "both", "f8", "never"},
                    ForwardOnlySetup{"llama_tiny", "zeroth_order", true, "both", "nf4", "never"}),
    name_of_forward_only);

// A store that is several steps behind: the log leads from there to its end.
TEST(ForwardOnlyStore, IsTakenToTheEndOfTheLogWhereItIsOld) {
    const auto setup = cli::ForwardOnlySetup{"gpt2", "forward_gradient", true};
    const Settings constant = {{"lr_scheduler_type", "constant_with_warmup"}};
    const ForwardOnlyOutcome expected = uninterrupted(setup, 12, constant);
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, setup, 4);
    settings["lr_scheduler_type"] = "constant_with_warmup";
    settings["writeback_steps"] = "2";  // by more than which it is behind
    must_succeed(sandbox.train(settings));
    fs::copy(sandbox / "ssd", sandbox / "old", fs::copy_options::recursive);
    settings["max_steps"] = "9";
    must_succeed(sandbox.train(settings, {"--resume"}));
    fs::remove_all(sandbox / "ssd");
    fs::rename(sandbox / "old", sandbox / "ssd");
    settings["max_steps"] = "12";
    const std::string said = must_succeed(sandbox.train(settings, {"--resume"})).err;
    EXPECT_THAT(said, HasSubstr("steps 5 to 9 are taken from the log"));
    expect_same(outcome_of(sandbox), expected);
}

// A learning rate that ends in numbers that are not finite: steps that were not applied are in the log as such.
TEST(ForwardOnlyLog, HoldsStepsThatWereNotApplied) {
    const auto setup = cli::ForwardOnlySetup{"llama_tiny", "zeroth_order"};
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, setup, 8);
    settings["learning_rate"] = "1000";
    settings["weight_decay"] = "1000";
    settings["lr_scheduler_type"] = "constant";
    settings["warmup_steps"] = "0";
    settings["loss_watchdog_patience"] = "100";
    must_succeed(sandbox.train(settings));
    TrajectoryReader log = TrajectoryReader::open(real_files(), log_of(sandbox));
    ASSERT_EQ(log.count(), 8);
    EXPECT_TRUE(log.read(1).applied);
    EXPECT_FALSE(log.read(8).applied);
    EXPECT_TRUE(replayed(sandbox, setup, 8) == weights_in(sandbox.out() + "/final"));
}

// Killed between a step's record and its state, or in the middle of the record: that step was in flight.
TEST(ForwardOnlyLog, ForgetsTheStepInFlight) {
    const auto setup = cli::ForwardOnlySetup{"gpt2", "zeroth_order"};
    const Settings constant = {{"lr_scheduler_type", "constant_with_warmup"}};
    const ForwardOnlyOutcome expected = uninterrupted(setup, 8, constant);
    for (const bool is_torn : {false, true}) {
        Sandbox sandbox;
        Settings settings = settings_of(sandbox, setup, 4);
        settings["lr_scheduler_type"] = "constant_with_warmup";
        must_succeed(sandbox.train(settings));
        {
            TrajectoryWriter writer = TrajectoryWriter::open(real_files(), log_of(sandbox));
            writer.append({.step = 5, .learning_rate = 1, .scalars = {2, 3}});
            if (!is_torn) writer.sync();
        }
        if (is_torn) fs::resize_file(log_of(sandbox), fs::file_size(log_of(sandbox)) - 3);
        settings["max_steps"] = "8";
        const std::string said = must_succeed(sandbox.train(settings, {"--resume"})).err;
        EXPECT_THAT(said, HasSubstr(is_torn ? "they are cut off" : "cut off after step 4; it held steps up to 5"));
        expect_same(outcome_of(sandbox), expected);
    }
}

// ---- refusals ----

const ForwardOnlySetup kSetup{"gpt2", "zeroth_order"};

class ForwardOnlyErrors : public testing::Test {
  protected:
    void train() { must_succeed(sandbox_.train(settings())); }
    Settings settings() { return settings_of(sandbox_, kSetup, 4); }
    Finished replay(const std::vector<std::string>& more = {}, const std::string& base = "gpt2") {
        std::vector<std::string> words = {"replay", sandbox_ / base, log_of(sandbox_), "--to", sandbox_ / "replayed"};
        words.insert(words.end(), more.begin(), more.end());
        return run(sandbox_.windlass(words));
    }
    Finished resume(const Settings& changes) {
        Settings changed = settings();
        changed["max_steps"] = "8";
        for (const auto& [key, value] : changes) changed[key] = value;
        return run(sandbox_.train(changed, {"--resume"}));
    }
    Sandbox sandbox_;
};

void expect_refused(const Finished& finished, int code, const char* part) {
    EXPECT_EQ(finished.code, code) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr(part));
}

TEST_F(ForwardOnlyErrors, ReplayRefusesOtherBases) {
    train();
    sandbox_.model("llama3");
    expect_refused(replay({}, "llama3"), 5, "the log belongs to");
    edit_safetensors(sandbox_ / "gpt2/model.safetensors", [](Json&, std::string& data) { data[0] ^= 1; });
    expect_refused(replay(), 5, "checksum of the weights");
    EXPECT_FALSE(fs::exists(sandbox_ / "replayed"));
}

TEST_F(ForwardOnlyErrors, ReplayRefusesStepsThatTheLogDoesNotHold) {
    train();
    expect_refused(replay({"--step", "5"}), 2, "holds steps 1 to 4");
    expect_refused(replay({"--step", "-1"}), 2, "--step");
}

TEST_F(ForwardOnlyErrors, ReplayRefusesDamageUnlessItComesLater) {
    train();
    flip_byte(log_of(sandbox_), -1);  // in the last record
    expect_refused(replay(), 6, "the record of step 4");
    expect_refused(replay({"--step", "4"}), 6, "the record of step 4");
    EXPECT_EQ(replay({"--step", "3"}).code, 0);
    write_bytes(log_of(sandbox_), "no log");
    expect_refused(replay(), 6, "header");
}

TEST_F(ForwardOnlyErrors, ResumingRefusesAnotherRunByName) {
    train();
    expect_refused(resume({{"directions", "3"}, {"zo_eps", "1e-2"}}), 2, "directions was 2, is 3; zo_eps was 0.001");
    expect_refused(resume({{"noise", "rademacher"}}), 2, "noise was gaussian, is rademacher");
    expect_refused(resume({{"noise", "low_rank"}, {"noise_rank", "3"}}), 2, "noise_rank was 2, is 3");
    edit_safetensors(sandbox_ / "gpt2/model.safetensors", [](Json&, std::string& data) { data[0] ^= 1; });
    expect_refused(resume({}), 5, "checksum of the weights");
}

TEST_F(ForwardOnlyErrors, ALogThatIsGoneBeginsAnewAtACheckpoint) {
    Settings first = settings();
    first["save_steps"] = "2";
    must_succeed(sandbox_.train(first));
    fs::remove(log_of(sandbox_));
    const Finished finished = resume({});
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("a new one begins with the weights of step 4"));
    expect_refused(replay(), 5, "the log belongs to");  // not to the first base
    EXPECT_EQ(replay({}, "out/checkpoint-4/model").code, 0);
    EXPECT_TRUE(weights_in(sandbox_ / "replayed") == weights_in(sandbox_.out() + "/final"));
}

// What was learned since weights were last merged is in the log alone.
TEST_F(ForwardOnlyErrors, ALogThatHoldsWhatWasLearnedCannotBeDoneWithout) {
    for (const char* merges : {"per_window", "never"}) {
        Sandbox sandbox;
        const cli::ForwardOnlySetup setup{"gpt2", "zeroth_order", false, "both", "", merges};
        Settings first = settings_of(sandbox, setup, 7);
        first["save_steps"] = "7";
        must_succeed(sandbox.train(first));
        const std::string checkpoint = sandbox.out() + "/checkpoint-7";
        must_succeed(sandbox.windlass({"export", checkpoint, "--to", sandbox / "exported"}));
        EXPECT_TRUE(weights_in(sandbox / "exported") == weights_in(sandbox.out() + "/final"));
        fs::remove(log_of(sandbox));
        first["max_steps"] = "9";
        const bool never = std::string(merges) == "never";
        expect_refused(run(sandbox.train(first, {"--resume"})), 6,
                       never ? "does not hold steps 1 to 7" : "does not hold steps 6 to 7");
    }
}

TEST_F(ForwardOnlyErrors, WithoutLogAndCheckpointThereIsNothingToResume) {
    train();
    fs::remove(log_of(sandbox_));
    expect_refused(resume({}), 2, "holds neither a checkpoint nor a working store");
}

TEST_F(ForwardOnlyErrors, ExportNamesTheVerbThatReplays) {
    train();
    const Finished finished = run(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "exported"}));
    expect_refused(finished, 2, "windlass replay");
}

}  // namespace
}  // namespace windlass::cli
