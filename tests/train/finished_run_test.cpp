// Resuming a run that is finished trains nothing again and changes nothing, whatever states are left of it: what counts
// is final/, if it is this run's.
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "tests/train/best_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct FinishedKind {
    const char* name;
    Settings changes;
};

void PrintTo(const FinishedKind& kind, std::ostream* out) {
    *out << kind.name;
}

class FinishedTest : public BestTest {
  protected:
    // A run of 4 steps whose newest checkpoint is that of step 2.
    Settings settings(const char* steps, const Settings& changes = {}) const {
        Settings settings = {{"max_steps", steps}, {"save_steps", "null"}, {"gradient_checkpointing", "false"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    void make_run(const Settings& changes = {}) {
        run("run", with(changes, {{"max_steps", "2"}, {"save_steps", "2"}}));
        run("run", with(changes, {{"resume", "auto"}}));
    }
    Settings with(const Settings& changes, const Settings& more) const {
        Settings whole = settings("4", changes);
        for (const auto& [key, value] : more) whole[key] = value;
        return whole;
    }
    TrainResult resume(const Settings& changes = {}) { return run("run", with(changes, {{"resume", "auto"}})); }
    // Every file of the run, and of its drive, with what it holds.
    std::map<std::string, std::string> contents() const {
        std::map<std::string, std::string> found;
        for (const char* name : {"run", "ssd"}) {
            for (const auto& entry : fs::recursive_directory_iterator(at(name))) {
                const std::string path = entry.path().lexically_relative(at(""));
                found[path] = entry.is_regular_file() ? bytes(path) : "a folder";
            }
        }
        return found;
    }
    // Says `said` and changes nothing.
    TrainResult expect_nothing_to_do(const Settings& changes, const std::string& said) {
        const auto before = contents();
        set_log_level(LogLevel::info);
        testing::internal::CaptureStderr();
        TrainResult result = resume(changes);
        const std::string lines = testing::internal::GetCapturedStderr();
        set_log_level(LogLevel::error);
        EXPECT_THAT(lines, HasSubstr(said));
        EXPECT_TRUE(contents() == before);
        EXPECT_EQ(result.code, ExitCode::ok);
        EXPECT_EQ(result.final_folder, at("run/final"));
        return result;
    }
};

class Finished : public FinishedTest, public testing::WithParamInterface<FinishedKind> {};

TEST_P(Finished, IsNotTrainedAgain) {
    make_run(GetParam().changes);
    const TrainResult again = expect_nothing_to_do(
        GetParam().changes, "Already finished (step 4 of 4). Raise max_steps or num_train_epochs to continue.");
    EXPECT_EQ(again.steps, 4);
    EXPECT_EQ(again.total_steps, 4);
    EXPECT_GT(again.loss, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Finished,
    testing::Values(FinishedKind{"in_memory", {}}, FinishedKind{"adapter", {{"adapter", "lora"}, {"lora_r", "4"}}},
                    FinishedKind{"on_disk", {{"policy", "three_tier"}, {"update_time", "next_forward"}}},
                    FinishedKind{"log", {{"method", "zeroth_order"}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(FinishedTest, WithoutAnyStateIsNotTrainedAgain) {
    run("run", settings("4"));
    fs::remove_all(at("run/checkpoint-4"));
    expect_nothing_to_do({}, "Already finished (step 4 of 4)");
}

// final/ is of the best step: the manifest also says that the run ended.
TEST_F(FinishedTest, WithItsBestStepIsNotTrainedAgain) {
    const Settings kind = best({{"save_steps", "null"}});
    run("run", kind);
    ASSERT_LT(final_step("run"), 16);
    const TrainResult again = expect_nothing_to_do(kind, "Already finished (step 16 of 16)");
    EXPECT_EQ(again.steps, 16);
    EXPECT_EQ(again.best_step, final_step("run"));
}

TEST_F(FinishedTest, EarlyIsNotTrainedAgain) {
    const Settings kind = best({{"save_steps", "null"}, {"max_steps", "60"}, {"early_stopping_patience", "3"}});
    const int64_t steps = run("run", kind).steps;
    ASSERT_LT(steps, 60);
    expect_nothing_to_do(kind, fmt::format("Already finished (stopped early, step {} of 60). Raise "
                                           "early_stopping_patience to continue.",
                                           steps));
}

TEST_F(FinishedTest, TrainsFurtherFromTheNewestStateAndSaysWhichThatIs) {
    make_run();
    set_log_level(LogLevel::warning);
    const TrainResult further = resume({{"max_steps", "6"}});
    set_log_level(LogLevel::error);
    EXPECT_EQ(further.steps, 6);
    EXPECT_EQ(final_step("run"), 6);
    EXPECT_EQ(history("run").size(), 6u);
    EXPECT_THAT(bytes("run/log.txt"),
                HasSubstr("newest state to continue from is of step 2: steps 3 to 4 are trained"));
}

TEST_F(FinishedTest, IsRepeatedWhereItsFinalFolderIsGoneOrLacksAFile) {
    make_run();
    for (const char* name : {"run/final", "run/final/tokenizer.json"}) {
        const std::string weights = bytes(std::string("run") + kWeights);
        fs::remove_all(at(name));
        EXPECT_EQ(resume().steps, 4) << name;
        EXPECT_TRUE(bytes(std::string("run") + kWeights) == weights) << name;
        EXPECT_EQ(final_step("run"), 4);
    }
}

TEST_F(FinishedTest, IsNotToldByTheFinalFolderOfAnotherRun) {
    run("run", settings("2", {{"save_steps", "2"}}));
    run("other", settings("4", {{"seed", "7"}}));
    fs::remove_all(at("run/final"));
    fs::copy(at("other/final"), at("run/final"), fs::copy_options::recursive);
    EXPECT_EQ(resume().steps, 4);
    EXPECT_EQ(history("run").size(), 4u);
    EXPECT_FALSE(bytes(std::string("run") + kWeights) == bytes(std::string("other") + kWeights));
}

TEST_F(FinishedTest, RefusesOtherSettingsAsARunThatIsNot) {
    make_run();
    EXPECT_THROW(resume({{"seed", "7"}}), UserError);
}

TEST_F(FinishedTest, IsRepeatedByOverwrite) {
    make_run();
    const std::string weights = bytes(std::string("run") + kWeights);
    run("run", settings("4", {{"overwrite", "true"}}));
    EXPECT_TRUE(bytes(std::string("run") + kWeights) == weights);
}

}  // namespace
}  // namespace windlass
