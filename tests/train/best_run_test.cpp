// Runs that end with their best step, and runs that give up.
#include "base/error.h"
#include "base/log.h"
#include "persist/export.h"
#include "tests/train/best_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using testing::Not;

class BestRun : public BestTest {
  protected:
    std::string problem(const Settings& changes) {
        try {
            run("refused", changes);
        } catch (const UserError& error) {
            return error.what();
        }
        return "no problem";
    }
    // Ends with the weights that a run has which is ended there; and its best checkpoint is there, whatever the limit.
    void expect_best(const std::string& name, const Settings& kind, const char* weights) {
        SCOPED_TRACE(name);
        const TrainResult result = run(name, best(kind));
        const int64_t step = least(name);
        EXPECT_EQ(result.best_step, step);
        EXPECT_EQ(final_step(name), step);
        EXPECT_TRUE(has(fmt::format("{}/checkpoint-{}", name, step)));
        Settings shorter = best(kind);
        shorter["load_best_model_at_end"] = "false";
        shorter["max_steps"] = std::to_string(step);
        run(name + "_ended", shorter);
        EXPECT_EQ(final_step(name + "_ended"), step);
        EXPECT_FALSE(bytes(name + weights).empty());
        EXPECT_TRUE(bytes(name + weights) == bytes(name + "_ended" + weights));
        between_ += step > 2 && step < 16 ? 1 : 0;
    }
    int between_ = 0;  // runs whose best step was neither their first nor their last
};

TEST_F(BestRun, EndsWithTheWeightsOfTheBestStep) {
    expect_best("in_memory", {{"save_total_limit", "1"}, {"save_steps", "3"}}, kWeights);
    expect_best("on_disk", {{"policy", "three_tier"}, {"update_time", "next_forward"}, {"save_steps", "null"}},
                kWeights);
    expect_best("lora", {{"adapter", "lora"}, {"lora_r", "4"}, {"learning_rate", "0.3"}}, kAdapterWeights);
    expect_best("lsp", {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "3"}, {"lsp_samples", "4"}}, kWeights);
    expect_best("probes", {{"method", "zeroth_order"}, {"learning_rate", "0.003"}}, kWeights);
    expect_best("window",
                {{"method", "zeroth_order"},
                 {"learning_rate", "0.003"},
                 {"noise", "low_rank"},
                 {"noise_window", "4"},
                 {"merge_updates", "per_window"}},
                kWeights);
    EXPECT_GE(between_, 3);
}

TEST_F(BestRun, GivesUpAndSaysSo) {
    set_log_level(LogLevel::info);
    const TrainResult result = run("run", best({{"max_steps", "60"}, {"early_stopping_patience", "3"}}));
    set_log_level(LogLevel::error);
    const int64_t step = least("run");
    EXPECT_EQ(result.code, ExitCode::ok);
    EXPECT_EQ(result.steps, step + 3 * 2);
    EXPECT_EQ(final_step("run"), step);
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr(fmt::format("step {} is the best so far", step)));
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("3 evaluations in a row"));
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr(fmt::format("with the weights of step {}", step)));
    // There is nothing left to do.
    const auto lines = history("run");
    const TrainResult again =
        run("run", best({{"max_steps", "60"}, {"early_stopping_patience", "3"}, {"resume", "auto"}}));
    EXPECT_EQ(again.steps, result.steps);
    EXPECT_EQ(history("run"), lines);
    // With more patience there is.
    const TrainResult more =
        run("run", best({{"max_steps", "60"}, {"early_stopping_patience", "4"}, {"resume", "auto"}}));
    EXPECT_GT(more.steps, result.steps);
}

TEST_F(BestRun, WithoutItsCheckpointTheBestStepIsLookedForAnew) {
    run("run", best({{"save_steps", "2"}, {"max_steps", "14"}}));
    const int64_t step = least("run");
    ASSERT_LT(step, 14);
    files_.remove_tree(at(fmt::format("run/checkpoint-{}", step)));
    set_log_level(LogLevel::warning);
    const TrainResult result = run("run", best({{"save_steps", "2"}, {"resume", "auto"}}));
    set_log_level(LogLevel::error);
    EXPECT_EQ(result.best_step, 16);
    EXPECT_EQ(final_step("run"), 16);
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("is gone, and with it the best step"));
}

// Back to a step whose state nobody kept: its evaluations are in metrics.jsonl.
TEST_F(BestRun, ARunThatIsTakenBackFindsTheSameBestStep) {
    const Settings probes = best({{"method", "zeroth_order"}, {"learning_rate", "0.003"}, {"save_steps", "16"}});
    run("run", probes);
    const int64_t step = least("run");
    const BestStep whole = remembered("run", 16);
    const std::string weights = bytes(std::string("run") + kWeights);
    for (const int64_t back : {step - 1, step + 1}) {
        Settings again = probes;
        again["resume"] = std::to_string(back);
        run("run", again);
        EXPECT_EQ(remembered("run", 16), whole) << back;
        EXPECT_EQ(final_step("run"), step) << back;
        EXPECT_TRUE(bytes(std::string("run") + kWeights) == weights) << back;
    }
}

TEST_F(BestRun, AnExportOfTheRunIsItsBestStep) {
    run("run", best({{"save_steps", "16"}}));
    const int64_t step = least("run");
    ASSERT_LT(step, 16);
    EXPECT_EQ(export_model(files_, {.source = at("run"), .target = at("best")}).step, step);
    EXPECT_TRUE(bytes("best/model.safetensors") == bytes(std::string("run") + kWeights));
    EXPECT_EQ(export_model(files_, {.source = at("run:last"), .target = at("last")}).step, 16);
    EXPECT_FALSE(bytes("last/model.safetensors") == bytes(std::string("run") + kWeights));
    // final/ has a manifest, but is no checkpoint.
    EXPECT_THROW(export_model(files_, {.source = at("run/final"), .target = at("other")}), UserError);
    EXPECT_FALSE(has("best/manifest.json"));
}

TEST_F(BestRun, AFinalFolderIsReplacedAndTrainedFurther) {
    run("run", best({{"max_steps", "4"}}));
    run("run", best({{"max_steps", "6"}, {"overwrite", "true"}}));
    run("further", {{"model", at("run/final")}, {"max_steps", "1"}});
    EXPECT_EQ(final_step("further"), 1);
}

TEST_F(BestRun, RefusesWhatCannotBeCompared) {
    EXPECT_THAT(problem({{"load_best_model_at_end", "true"}, {"eval_data", at("eval.jsonl")}}),
                HasSubstr("Try: eval_steps: 100"));
    EXPECT_THAT(problem(best({{"metric_for_best_model", "accuracy"}})), HasSubstr("task is not set"));
    EXPECT_THAT(problem(best({{"greater_is_better", "true"}})), HasSubstr("Try: greater_is_better: false"));
    EXPECT_THAT(problem({{"early_stopping_threshold", "0.1"}}), HasSubstr("early_stopping_patience"));
    EXPECT_THAT(problem({{"metric_for_best_model", "eval_accuracy"}}), HasSubstr("load_best_model_at_end: true"));
    EXPECT_THAT(
        problem(best({{"metric_for_best_model", "eval_loss"}, {"greater_is_better", "false"}, {"max_steps", "2"}})),
        "no problem");
}

}  // namespace
}  // namespace windlass
