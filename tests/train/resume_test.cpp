// A run that was stopped, in any way, goes on as if it had not been: same losses, same weights, bit for bit.
#include <gmock/gmock.h>

#include <csignal>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/tfevents_reader.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using ResumeTest = TrainTest;

// 21 rows, 4 to a step: the run crosses the border of epochs within steps.
TEST_F(ResumeTest, FromACheckpointAcrossEpochs) {
    run("whole");
    run("parts", {{"max_steps", "5"}, {"save_steps", "5"}});
    run("parts", {{"max_steps", "8"}, {"save_steps", "5"}, {"resume", "auto"}});
    run("parts", {{"resume", "auto"}});
    EXPECT_EQ(history("parts"), history("whole"));
    EXPECT_EQ(bytes(std::string("parts") + kWeights), bytes(std::string("whole") + kWeights));
}

TEST_F(ResumeTest, FromTheCheckpointThatIsNamed) {
    run("run", {{"save_steps", "3"}});
    const auto first = history("run");
    const std::string weights = bytes(std::string("run") + kWeights);
    run("run", {{"save_steps", "3"}, {"resume", "6"}});
    EXPECT_EQ(history("run"), first);
    EXPECT_EQ(bytes(std::string("run") + kWeights), weights);
    EXPECT_THROW(run("run", {{"resume", "7"}}), UserError);
}

// Killed behind the last step's commit and before its evaluation.
TEST_F(ResumeTest, MakesUpForTheLastEvaluation) {
    const Settings settings = {{"max_steps", "4"}, {"save_steps", "4"}, {"eval_data", at("eval.jsonl")}};
    run("run", settings);
    const std::string lines = bytes("run/metrics.jsonl");
    ASSERT_NE(lines.find(R"("eval_loss")"), std::string::npos);
    std::string text;
    for (size_t at = 0; at < lines.size();) {
        const size_t end = lines.find('\n', at) + 1;
        Json line = Json::parse(lines.substr(at, end - at));
        for (const char* name : {"eval_loss", "eval_seconds", "checksum"}) line.erase(name);
        text += line.dump() + "\n";
        at = end;
    }
    write("run/metrics.jsonl", text);
    files_.remove_tree(at("run/final"));
    Settings again = settings;
    again["resume"] = "auto";
    const TrainResult result = run("run", again);
    const auto loss_of = [](const std::string& all) {
        return Json::parse(all.substr(all.rfind('\n', all.size() - 2) + 1)).at("eval_loss").get<double>();
    };
    EXPECT_EQ(loss_of(bytes("run/metrics.jsonl")), loss_of(lines));
    EXPECT_EQ(result.eval_loss, loss_of(lines));
}

TEST_F(ResumeTest, AfterSigkillWithStateOnDisk) {
    run("whole", {{"max_steps", "40"}});
    const Settings disk = {{"max_steps", "40"}, {"policy", "three_tier"}};
    Settings again = disk;
    again["resume"] = "auto";
    const int code = run_apart("killed", disk, [](int pid, int64_t lines) {
        if (lines >= 7) kill(pid, SIGKILL);
    });
    ASSERT_EQ(code, 128 + SIGKILL);
    const int second = run_apart("killed", again, [](int pid, int64_t lines) {
        if (lines >= 20) kill(pid, SIGKILL);
    });
    ASSERT_EQ(second, 128 + SIGKILL);
    run("killed", again);
    EXPECT_EQ(history("killed"), history("whole"));
    EXPECT_EQ(bytes(std::string("killed") + kWeights), bytes(std::string("whole") + kWeights));
}

// Steps that a kill left in TensorBoard's log later than the newest state, and steps that were undone, are drawn once.
TEST_F(ResumeTest, TensorBoardDrawsEachStepOnce) {
    const Settings settings = {{"max_steps", "60"}, {"save_steps", "4"}, {"report_to", "[jsonl, tensorboard]"}};
    const int code = run_apart("run", settings, [](int pid, int64_t lines) {
        if (lines >= 7) kill(pid, SIGKILL);
    });
    ASSERT_EQ(code, 128 + SIGKILL);
    Settings again = settings;
    again["max_steps"] = "24";
    for (const char* from : {"auto", "8"}) {
        again["resume"] = from;
        run("run", again);
        std::vector<std::pair<int64_t, float>> expected;
        for (const double loss : losses("run")) expected.emplace_back(std::ssize(expected) + 1, loss);
        EXPECT_EQ(expected.size(), 24u);
        EXPECT_EQ(events::points_of(files_, at("run"), "train/loss"), expected) << from;
    }
}

TEST_F(ResumeTest, AfterCtrlC) {
    run("whole", {{"max_steps", "60"}});
    bool sent = false;
    const int code = run_apart("stopped", {{"max_steps", "60"}}, [&](int pid, int64_t lines) {
        if (lines >= 5 && !sent) sent = kill(pid, SIGINT) == 0;
    });
    ASSERT_EQ(code, 130);
    EXPECT_LT(history("stopped").size(), 60u);
    run("stopped", {{"max_steps", "60"}, {"resume", "auto"}});
    EXPECT_EQ(history("stopped"), history("whole"));
    EXPECT_EQ(bytes(std::string("stopped") + kWeights), bytes(std::string("whole") + kWeights));
}

TEST_F(ResumeTest, ACheckpointServesEveryPolicy) {
    run("whole");
    run("parts", {{"max_steps", "5"}, {"save_steps", "5"}});
    run("parts", {{"resume", "auto"}, {"policy", "three_tier"}});
    EXPECT_EQ(history("parts"), history("whole"));
    EXPECT_EQ(bytes(std::string("parts") + kWeights), bytes(std::string("whole") + kWeights));
}

TEST_F(ResumeTest, RefusesToBeAnotherRun) {
    run("run", {{"max_steps", "4"}, {"save_steps", "4"}});
    const auto problem = [&](Settings changes) -> std::string {
        changes["resume"] = "auto";
        try {
            run("run", changes);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(problem({{"seed", "1"}}), testing::HasSubstr("seed was 42, is 1"));
    EXPECT_THAT(problem({{"gradient_accumulation_steps", "1"}}),
                testing::HasSubstr("gradient_accumulation_steps was 2, is 1"));
    EXPECT_THAT(problem({{"dtype", "bf16"}}), testing::HasSubstr("dtype was f32, is bf16"));
    EXPECT_THAT(problem({{"max_length", "32"}}), testing::HasSubstr("training rows was"));
}

// Its lengths are a part of the run's numerics.
TEST_F(ResumeTest, RefusesRowsToEvaluateOnThatAreLongerThanTheRuns) {
    write("short.jsonl", "{\"text\": \"abcabcabc\"}\n{\"text\": \"abca\"}\n");
    const Settings begun = {{"train_data", "[" + at("short.jsonl") + "]"}, {"save_steps", "2"}};
    Settings on = begun;
    on.merge(Settings{{"max_steps", "3"}, {"resume", "auto"}, {"eval_data", "[" + at("eval.jsonl") + "]"}});
    Settings first = begun;
    first["max_steps"] = "2";
    run("run", first);
    try {
        run("run", on);
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("eval_data: a row has "));
    }
    on["eval_data"] = "[" + at("short.jsonl") + "]";
    run("run", on);
}

// Of frequencies of positions nothing else says anything.
TEST_F(ResumeTest, RefusesAModelWhoseConfigSaysOtherPositions) {
    run("run", {{"max_steps", "4"}, {"save_steps", "4"}});
    const std::string config = bytes("model/config.json");
    Json other = parse_json(config, "config.json", ExitCode::model);
    other["rope_theta"] = 12345.0;
    write("model/config.json", other.dump());
    try {
        run("run", {{"resume", "auto"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("checksum of rope frequencies (config.json) was "));
    }
    write("model/config.json", config);
    run("run", {{"resume", "auto"}});
}

// What each step of AdamW depends on beside numerics.
TEST_F(ResumeTest, OtherUpdateSettingsAreRefusedByNameOrAllowedByName) {
    set_log_level(LogLevel::warning);
    run("run", {{"max_steps", "4"}, {"save_steps", "4"}, {"weight_decay", "0.01"}});
    const Settings own = {{"resume", "auto"}, {"weight_decay", "0.01"}};
    for (const auto& [key, value, words] : {std::tuple{"adam_beta1", "0.8", "adam_beta1 was 0.9, is 0.8"},
                                            std::tuple{"adam_beta2", "0.95", "adam_beta2 was 0.999, is 0.95"},
                                            std::tuple{"adam_epsilon", "1e-6", "adam_epsilon was 1e-08, is 1e-06"},
                                            std::tuple{"weight_decay", "0", "weight_decay was 0.01, is 0"},
                                            std::tuple{"max_grad_norm", "0.5", "max_grad_norm was 1, is 0.5"}}) {
        Settings changes = own;
        changes[key] = value;
        try {
            run("run", changes);
            ADD_FAILURE() << key << " is not refused";
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_THAT(error.what(), testing::HasSubstr(words));
            EXPECT_THAT(error.what(), testing::HasSubstr(std::string("allow_changed_settings: [") + key + "]"));
        }
    }
    run("run",
        {{"max_steps", "6"}, {"save_steps", "2"}, {"resume", "auto"}, {"allow_changed_settings", "weight_decay"}});
    EXPECT_THAT(bytes("run/log.txt"), testing::HasSubstr("weight_decay was 0.01, is 0"));
    run("run", {{"max_steps", "8"}, {"resume", "auto"}});  // the new value is the run's now
}

TEST_F(ResumeTest, PassesOverADamagedCheckpoint) {
    run("run", {{"max_steps", "8"}, {"save_steps", "4"}});
    run("whole", {{"max_steps", "8"}});
    std::string damaged = bytes("run/checkpoint-8/state.wls");
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    write("run/checkpoint-8/state.wls", damaged);
    run("run", {{"max_steps", "8"}, {"save_steps", "4"}, {"resume", "auto"}});
    EXPECT_EQ(history("run"), history("whole"));
}

}  // namespace
}  // namespace windlass
