// LOMO and AdaLomo as whole runs: stops, placement, what is usual for them, and gradients that are not finite.
#include <gmock/gmock.h>

#include "base/error.h"
#include "session/run_text.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using AtOnceRun = TrainTest;

TEST_F(AtOnceRun, PlacementAndStopsNeverChangeABit) {
    for (const char* const method : {"lomo", "adalomo"}) {
        for (const char* const storage : {"as_file", "split"}) {
            const std::string whole = fmt::format("{}_{}", method, storage), parts = whole + "_parts",
                              disk = whole + "_disk";
            const auto with = [&](Settings more) {
                more.insert({{"method", method}, {"weight_storage", storage}});
                return more;
            };
            run(whole, with({}));
            run(disk, with({{"policy", "three_tier"}}));
            run(parts, with({{"max_steps", "6"}, {"save_steps", "6"}}));
            run(parts, with({{"resume", "auto"}, {"policy", "three_tier"}}));
            for (const std::string& other : {parts, disk}) {
                EXPECT_EQ(history(other), history(whole)) << other;
                EXPECT_EQ(bytes(other + kWeights), bytes(whole + kWeights)) << other;
            }
        }
        // Rates that are given are not those of the papers; limits that nothing reaches change nothing.
        const std::string whole = std::string(method) + "_as_file";
        run("limited", {{"method", method}, {"max_grad_norm", "1000000"}, {"overwrite", "true"}});
        EXPECT_EQ(bytes(std::string("limited") + kWeights), bytes(whole + kWeights));
    }
}

TEST_F(AtOnceRun, TakesWhatIsUsualForItWhereNobodySaysOtherwise) {
    const auto made = [](std::vector<std::string> words) {
        return make_config(read_config_sources(real_files(), words), ConfigUse::plan).config;
    };
    EXPECT_EQ(made({"--model", "m", "--method", "lomo"}).learning_rate, 0.03);
    EXPECT_EQ(made({"--model", "m", "--method", "adalomo"}).learning_rate, 5e-4);
    EXPECT_EQ(made({"--model", "m", "--method", "adalomo"}).max_grad_norm, 0);
    EXPECT_EQ(made({"--model", "m", "--preset", "lomo"}).warmup_ratio, 0.1);
    EXPECT_EQ(made({"--model", "m", "--preset", "adalomo"}).warmup_ratio, 0.03);
    EXPECT_EQ(made({"--model", "m", "--method", "lomo", "--lr", "0.1", "--max-grad-norm", "1"}).learning_rate, 0.1);
    EXPECT_EQ(made({"--model", "m", "--method", "lomo", "--lr", "0.1", "--max-grad-norm", "1"}).max_grad_norm, 1);
    const Config adamw = made({"--model", "m"}), lomo = with_method(adamw, "lomo");
    EXPECT_EQ(lomo.max_grad_norm, 0);
    EXPECT_EQ(with_method(lomo, "adamw").max_grad_norm, adamw.max_grad_norm);
    EXPECT_EQ(with_method(lomo, "adamw").learning_rate, adamw.learning_rate);
}

TEST_F(AtOnceRun, APlanSaysWhatASecondBackwardCosts) {
    const auto text = [&](const Settings& settings) {
        return plan_text(prepare_session(files_, config("plan", settings), {}, ConfigUse::plan));
    };
    EXPECT_THAT(text({{"method", "lomo"}, {"max_grad_norm", "1"}}), HasSubstr("the norm takes a second backward: "));
    EXPECT_THAT(text({{"method", "lomo"}, {"max_grad_norm", "0"}}), testing::Not(HasSubstr("second backward")));
    EXPECT_THAT(text({{"method", "lomo"}}), HasSubstr("updates after each block's backward"));
}

// Steps that are much too long: losses are finite at first, gradients are not.
constexpr const char* kMuchTooLong = "1000";

TEST_F(AtOnceRun, WithoutAStoreAGradientThatIsNotFiniteEndsTheRun) {
    for (const char* const save : {"1", "100"}) {
        const std::string name = std::string("save_") + save;
        try {
            run(name, {{"method", "lomo"}, {"learning_rate", kMuchTooLong}, {"save_steps", save}});
            FAIL();
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::diverged);
            EXPECT_THAT(error.what(), HasSubstr("a gradient was not finite"));
            EXPECT_THAT(error.what(),
                        HasSubstr(save == std::string("1") ? "the last state before it is " + at(name) + "/checkpoint-"
                                                           : "nothing was saved before it"));
        }
    }
}

TEST_F(AtOnceRun, WithAStoreTheStepIsSkipped) {
    try {
        run("run", {{"method", "lomo"}, {"learning_rate", kMuchTooLong}, {"policy", "three_tier"}});
        FAIL();
    } catch (const UserError& error) {  // weights stay as they were, and so do their gradients
        EXPECT_EQ(error.code(), ExitCode::diverged);
        EXPECT_THAT(error.what(), HasSubstr("3 steps in a row were not finite"));
    }
}

}  // namespace
}  // namespace windlass
