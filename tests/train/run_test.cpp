// Whole runs: what they compute does not depend on where things live or how rows are cut; what they leave behind.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "infer/evaluate.h"
#include "infer/inference.h"
#include "persist/export.h"
#include "tests/fault_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using RunTest = TrainTest;

TEST_F(RunTest, PlacementNeverChangesABit) {
    run("memory", {{"gradient_checkpointing", "false"}});
    run("recomputed", {{"gradient_checkpointing", "true"}});
    run("disk", {{"policy", "three_tier"}});
    run("one_thread", {{"threads", "1"}});
    for (const char* other : {"recomputed", "disk", "one_thread"}) {
        EXPECT_EQ(history(other), history("memory")) << other;
        EXPECT_EQ(bytes(std::string(other) + "/final/model.safetensors"), bytes("memory/final/model.safetensors"))
            << other;
    }
}

TEST_F(RunTest, MicroBatchesSplitTheSameRows) {
    run("two_two");
    run("four_one", {{"per_device_train_batch_size", "4"}, {"gradient_accumulation_steps", "1"}});
    run("one_four", {{"per_device_train_batch_size", "1"}, {"gradient_accumulation_steps", "4"}});
    for (const char* other : {"four_one", "one_four"}) {
        const auto a = losses("two_two"), b = losses(other);
        ASSERT_EQ(a.size(), b.size());
        EXPECT_EQ(a[0], b[0]) << "before any update only the order of summation could differ, and it does not";
        for (size_t i = 0; i < a.size(); ++i)
            EXPECT_NEAR(a[i], b[i], 1e-4 * a[i]) << other;  // f32 sums in another order
    }
}

TEST_F(RunTest, Learns) {
    const TrainResult result = run("run", {{"max_steps", "60"}});
    EXPECT_EQ(result.code, ExitCode::ok);
    EXPECT_EQ(result.steps, 60);
    EXPECT_LT(result.loss, 2.2);  // six equally likely letters: ln 6 = 1.79; the untrained model is above 4
    EXPECT_GT(losses("run").front(), 4.0);
}

TEST_F(RunTest, LeavesACompleteFolder) {
    const TrainResult result = run("run", {{"save_steps", "4"},
                                           {"save_total_limit", "2"},
                                           {"save_first_step", "true"},
                                           {"eval_data", at("eval.jsonl")},
                                           {"eval_steps", "6"}});
    for (const char* name : {"run.yaml", "log.txt", "metrics.jsonl", "loss.svg", "final/config.json",
                             "final/model.safetensors", "final/tokenizer.json", "checkpoint-8/manifest.json",
                             "checkpoint-12/model/config.json", "checkpoint-12/state.wls"}) {
        EXPECT_TRUE(std::filesystem::exists(at(std::string("run/") + name))) << name;
    }
    EXPECT_FALSE(std::filesystem::exists(at("run/checkpoint-1")));
    EXPECT_FALSE(std::filesystem::exists(at("run/checkpoint-4")));
    EXPECT_EQ(bytes("run/final/config.json"), bytes("model/config.json"));
    EXPECT_EQ(bytes("run/final/model.safetensors"), bytes("run/checkpoint-12/model/model.safetensors"));
    EXPECT_GT(result.eval_loss, 1.0);
    EXPECT_THAT(bytes("run/loss.svg"), HasSubstr("evaluation"));
}

TEST_F(RunTest, EvaluationChangesNothing) {
    run("without");
    run("with", {{"eval_data", at("eval.jsonl")}, {"eval_steps", "1"}});
    EXPECT_EQ(bytes("with/final/model.safetensors"), bytes("without/final/model.safetensors"));
    EXPECT_EQ(losses("with"), losses("without"));
}

TEST_F(RunTest, ExportGivesWhatTheCheckpointHolds) {
    run("run", {{"save_steps", "6"}});
    EXPECT_EQ(export_model(files_, {.source = at("run:6"), .target = at("six")}).step, 6);
    EXPECT_EQ(bytes("six/model.safetensors"), bytes("run/checkpoint-6/model/model.safetensors"));
    EXPECT_EQ(export_model(files_, {.source = at("run"), .target = at("last")}).step, 12);
    EXPECT_EQ(bytes("last/model.safetensors"), bytes("run/final/model.safetensors"));
    EXPECT_EQ(
        export_model(files_, {.source = at("run/checkpoint-6"), .target = at("small"), .dtype = DType::bf16}).step, 6);
    EXPECT_LT(bytes("small/model.safetensors").size(), bytes("six/model.safetensors").size());
    EXPECT_THROW(export_model(files_, {.source = at("model"), .target = at("none")}), UserError);
}

TEST_F(RunTest, ExportReadsTheWorkingStoreOfAStoppedRun) {
    const int code = run_apart("run", {{"policy", "three_tier"}, {"max_steps", "40"}}, [](int pid, int64_t lines) {
        if (lines >= 5) kill(pid, SIGKILL);
    });
    ASSERT_EQ(code, 128 + SIGKILL);
    const ExportResult result = export_model(files_, {.source = at("run"), .target = at("out")});
    EXPECT_GE(result.step, 5);
    run("same", {{"max_steps", std::to_string(result.step.value())}});
    EXPECT_EQ(bytes("out/model.safetensors"), bytes("same/final/model.safetensors"));
}

TEST_F(RunTest, AFullDiskDoesNotEndTheRun) {
    set_log_level(LogLevel::warning);
    FaultFiles files(at("image"));
    files.fail({.call = FaultCall::write,
                .error_number = ENOSPC,
                .times = FaultRule::kForever,
                .path_part = "checkpoint-4.tmp"});
    const TrainResult result = train(files, config("run", {{"save_steps", "4"}}));
    EXPECT_EQ(result.steps, 12);
    EXPECT_FALSE(std::filesystem::exists(at("run/checkpoint-4")));
    EXPECT_FALSE(std::filesystem::exists(at("run/checkpoint-4.tmp")));
    EXPECT_TRUE(std::filesystem::exists(at("run/checkpoint-8/manifest.json")));
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("checkpoint 4 is not saved"));
}

// Lines and events of steps for which there was no room are written when there is some.
TEST_F(RunTest, AFullDiskDoesNotEndTheRunBetweenCheckpoints) {
    set_log_level(LogLevel::warning);
    run("whole");
    for (const char* file : {"metrics.jsonl", "events.out"}) {
        FaultFiles files(at("image"));
        files.fail({.call = FaultCall::write, .nth = 4, .error_number = ENOSPC, .times = 4, .path_part = file});
        EXPECT_EQ(train(files, config(file, {{"report_to", "[jsonl, tensorboard]"}})).steps, 12);
        EXPECT_EQ(history(file), history("whole"));
        EXPECT_THAT(bytes(std::string(file) + "/log.txt"), HasSubstr("the lines of steps wait until there is room"));
    }
}

TEST_F(RunTest, TheWatchdogStopsARunThatDiverges) {
    try {
        run("run", {{"loss_watchdog_threshold", "0.5"}, {"loss_watchdog_patience", "2"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::diverged);
        EXPECT_THAT(error.what(), HasSubstr("2 steps in a row"));
    }
    EXPECT_EQ(history("run").size(), 2u);
}

TEST_F(RunTest, StepsThatAreNotFiniteAreRecordedAndStopTheRun) {
    try {
        run("run", {{"learning_rate", "1000"}, {"weight_decay", "1000"}, {"max_steps", "100"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::diverged);
    }
    const auto names = files_.list(at("run"));
    EXPECT_EQ(std::count_if(names.begin(), names.end(),
                            [](const std::string& name) { return name.starts_with("bad-batch-"); }),
              3);
}

TEST_F(RunTest, SavesWhenAsked) {
    bool asked = false;
    const int code = run_apart("run", {{"max_steps", "80"}}, [&](int pid, int64_t lines) {
        if (lines < 3 || asked) return;
        asked = true;
        kill(pid, SIGUSR1);
    });
    EXPECT_EQ(code, 0);
    const auto names = files_.list(at("run"));
    EXPECT_EQ(std::count_if(names.begin(), names.end(),
                            [](const std::string& name) { return name.starts_with("checkpoint-"); }),
              1);
}

TEST_F(RunTest, KeepsItsHandsOffFoldersThatAreNoRun) {
    files_.make_folders(at("mine"));
    write("mine/thesis.txt", "years of work");
    EXPECT_THROW(run("mine"), UserError);
    EXPECT_THROW(run("mine", {{"overwrite", "true"}}), UserError);
    run("run");
    EXPECT_THROW(run("run"), UserError);
    write("run/notes.txt", "keep me");
    run("run", {{"overwrite", "true"}, {"max_steps", "2"}});
    EXPECT_EQ(history("run").size(), 2u);
    EXPECT_EQ(bytes("run/notes.txt"), "keep me");
    EXPECT_THROW(run("run", {{"overwrite", "true"}, {"ram", "1MiB"}}), UserError);
    EXPECT_EQ(history("run").size(), 2u) << "a run that is refused costs nobody an older one";
    EXPECT_THROW(run("fresh", {{"resume", "auto"}}), UserError);
}

TEST_F(RunTest, ChoicesAreScoredByTheirOwnTokensAlone) {
    OpenModel opened = open_model(files_, {.model = at("model")});
    const auto row = [&](const std::string& prompt, int64_t right) {
        ChoiceRow made{.right = right};
        for (const char* answer : {"a", "b"})
            made.candidates.push_back(completion_sample(opened.tokenizer, prompt, answer, 64));
        return made;
    };
    EXPECT_EQ(row("xyz", 0).candidates[1].trained_count(), 1);
    const std::vector<ChoiceRow> as_a = {row("one", 0), row("two two", 0), row("x", 0)};
    std::vector<ChoiceRow> as_b = as_a;
    for (ChoiceRow& made : as_b) made.right = 1;
    Inference inference(files_, opened, {.model = at("model"), .threads = 2},
                        {.micro_batch_size = 4,
                         .sequence_lengths = {16},
                         .schedules = {{.kind = ScheduleRequest::Kind::eval, .rows = 4, .sequence_length = 16}}});
    EXPECT_EQ(evaluate_choices(inference.engine(), as_a).right + evaluate_choices(inference.engine(), as_b).right, 3);
}

}  // namespace
}  // namespace windlass
