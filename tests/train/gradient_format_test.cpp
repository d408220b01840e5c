// Gradients in narrow forms: runs are stopped, killed and moved as any other.
#include <gmock/gmock.h>

#include <csignal>

#include "base/error.h"
#include "session/session.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using GradientFormatTest = TrainTest;

TEST_F(GradientFormatTest, PlacementAndStopsNeverChangeABit) {
    std::vector<std::string> weights;
    for (const char* format : {"f32", "bf16", "i8", "i4"}) {
        const std::string name = format, whole = name + "_whole", parts = name + "_parts", disk = name + "_disk";
        run(whole, {{"gradient_format", format}});
        run(disk, {{"gradient_format", format}, {"policy", "three_tier"}});
        run(parts, {{"gradient_format", format}, {"max_steps", "6"}, {"save_steps", "6"}});
        run(parts, {{"resume", "auto"}, {"gradient_format", format}, {"policy", "three_tier"}});
        for (const std::string& other : {parts, disk}) {
            EXPECT_EQ(history(other), history(whole));
            EXPECT_EQ(bytes(other + kWeights), bytes(whole + kWeights));
        }
        for (const std::string& other : weights) EXPECT_NE(bytes(whole + kWeights), other);
        weights.push_back(bytes(whole + kWeights));
    }
}

TEST_F(GradientFormatTest, AKilledRunGoesOnToTheBit) {
    const Settings disk = {{"max_steps", "40"}, {"gradient_format", "i8"}, {"policy", "three_tier"}};
    Settings memory = disk, again = disk;
    memory["policy"] = "in_memory";
    again["resume"] = "auto";
    run("whole", memory);
    const int code = run_apart("killed", disk, [](int pid, int64_t lines) {
        if (lines >= 7) kill(pid, SIGKILL);
    });
    ASSERT_EQ(code, 128 + SIGKILL);
    run("killed", again);
    EXPECT_EQ(history("killed"), history("whole"));
    EXPECT_EQ(bytes(std::string("killed") + kWeights), bytes(std::string("whole") + kWeights));
}

TEST_F(GradientFormatTest, APlanThatMovesNoGradientSaysSo) {
    const auto notes = [&](const Settings& settings) {
        return testing::PrintToString(prepare_session(files_, config("planned", settings), {}).notes);
    };
    const std::string stays = "gradient_format is i4: gradients are rounded to it, but none crosses a link";
    EXPECT_THAT(notes({{"gradient_format", "i4"}, {"policy", "in_memory"}}), testing::HasSubstr(stays));
    const Settings streamed = {{"policy", "host_stream"}, {"device", "cpu:emulate"}, {"gradient_format", "i4"}};
    EXPECT_THAT(notes(streamed), testing::Not(testing::HasSubstr("gradient_format")));
    EXPECT_THAT(notes({{"policy", "in_memory"}}), testing::Not(testing::HasSubstr("gradient_format")));
}

TEST_F(GradientFormatTest, AnotherFormatIsAnotherRun) {
    run("run", {{"max_steps", "4"}, {"save_steps", "4"}, {"gradient_format", "bf16"}});
    try {
        run("run", {{"resume", "auto"}, {"gradient_format", "i8"}});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("gradient_format was bf16, is i8"));
    }
}

}  // namespace
}  // namespace windlass
