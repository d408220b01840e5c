// The first hour: Ctrl-C. What the program says then is followed.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class CtrlC : public testing::TestWithParam<bool> {
  protected:
    Settings settings(int64_t steps) {
        Settings settings = GetParam() ? sandbox_.training_on_disk() : sandbox_.training();
        settings["max_steps"] = std::to_string(steps);
        settings["lr_scheduler_type"] = "constant";
        return settings;
    }
    Sandbox sandbox_;
};

TEST_P(CtrlC, SavesAndSaysHowToGoOn) {
    Process process(sandbox_.train(settings(100'000)));
    ASSERT_TRUE(wait_until([&] { return metrics_of(sandbox_.out()).size() >= 2; }, 60)) << process.messages();
    process.send(SIGINT);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 130) << describe(stopped);
    EXPECT_THAT(stopped.err, HasSubstr(fmt::format("of 100000. To continue: windlass train {}/run.yaml --resume\n",
                                                   sandbox_.out())));
    const auto done = static_cast<int64_t>(metrics_of(sandbox_.out()).size());
    must_succeed(sandbox_.train(settings(done + 2), {"--resume"}));
    EXPECT_EQ(std::ssize(metrics_of(sandbox_.out())), done + 2);
    EXPECT_TRUE(fs::exists(sandbox_.out() + "/final/model.safetensors"));
}

// Within the first step, which takes a while: in memory nothing is kept of it, and --resume would find nothing.
TEST_P(CtrlC, TwiceBeforeAnythingIsSavedNamesWhatWorks) {
    Settings slow = settings(2);
    std::vector<int> ids(256);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(3 + i * 7 % 90);
    slow["train_data"] = sandbox_.rows("long.jsonl", {Json({{"input_ids", ids}}).dump()});
    slow["max_length"] = "256";
    slow["per_device_train_batch_size"] = "32";
    slow["gradient_accumulation_steps"] = "16";
    Process process(sandbox_.train(slow));
    // Made when the loop begins, which takes signals before that.
    ASSERT_TRUE(wait_until([&] { return fs::exists(sandbox_.out() + "/metrics.jsonl"); }, 60)) << process.messages();
    const auto says = [&](const char* part) { return process.messages().find(part) != std::string::npos; };
    process.send(SIGINT);
    wait_until([&] { return says("once more to stop now") || !process.is_running(); }, 60);
    // Two at once are one, delivered twice.
    while (!wait_until([&] { return !process.is_running(); }, 0.1)) process.send(SIGINT);
    const Finished stopped = process.wait();
    if (!metrics_of(sandbox_.out()).empty()) GTEST_SKIP() << "a step was done before the second signal";
    if (says("stopped after step 0")) GTEST_SKIP() << "the first signal came before the first step";
    EXPECT_EQ(stopped.code, 130) << describe(stopped);
    EXPECT_THAT(stopped.err, HasSubstr("stopped in step 1, which was not applied"));
    const bool is_kept = GetParam();
    EXPECT_THAT(stopped.err, HasSubstr(is_kept ? "To continue: windlass train "
                                               : "with nothing saved. To begin again: windlass train "));
    EXPECT_THAT(stopped.err, Not(HasSubstr(is_kept ? "--overwrite" : "--resume")));
    must_succeed(sandbox_.train(slow, {is_kept ? "--resume" : "--overwrite"}));
}

INSTANTIATE_TEST_SUITE_P(Placements, CtrlC, testing::Bool(),
                         [](const auto& info) { return info.param ? "OnDisk" : "InMemory"; });

}  // namespace
}  // namespace windlass::cli
