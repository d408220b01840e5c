// A program that holds a run in itself stops it and asks it for checkpoints as signals do; and has no file left open
// of a run that is over.
#include <gmock/gmock.h>

#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "state/checkpoint.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class RunControlTest : public TrainTest {
  protected:
    ~RunControlTest() override { set_log_level(LogLevel::error); }

    // A run without an end, but for what `ask` asks of it once it has begun.
    TrainResult run_asked(const std::function<void(RunControl&)>& ask) {
        RunControl control;
        const std::jthread other([&](const std::stop_token& failed) {
            while (!control.is_running() && !failed.stop_requested()) std::this_thread::yield();
            if (!failed.stop_requested()) ask(control);
        });
        return train(files_, config("run", {{"max_steps", "1000000"}}), {.control = &control});
    }
};

TEST_F(RunControlTest, StopsARunThatMayContinue) {
    const TrainResult stopped = run_asked([this](RunControl& control) {
        control.save();
        while (list_checkpoints(files_, at("run")).empty()) std::this_thread::yield();
        EXPECT_TRUE(control.stop_after_step(ExitCode::terminated));
    });
    EXPECT_EQ(stopped.code, ExitCode::terminated);
    EXPECT_THAT(stopped.resume, HasSubstr("--resume"));
    EXPECT_TRUE(files_.exists(at(fmt::format("run/checkpoint-{}", stopped.steps))));
}

TEST_F(RunControlTest, StopsARunWithinItsStep) {
    const TrainResult stopped = run_asked([](RunControl& control) {
        EXPECT_TRUE(control.stop_after_step(ExitCode::terminated));
        EXPECT_FALSE(control.stop_after_step(ExitCode::interrupted));  // not the first, but how it ends
        control.stop_now();
    });
    EXPECT_EQ(stopped.code, ExitCode::interrupted);
}

TEST_F(RunControlTest, KeepsARequestForACheckpointUntilThereIsARun) {
    RunControl control;
    control.save();
    EXPECT_FALSE(control.stop_after_step(ExitCode::terminated));  // there is none yet
    EXPECT_EQ(train(files_, config("run", {}), {.control = &control}).code, ExitCode::ok);
    EXPECT_TRUE(files_.exists(at("run/checkpoint-1")));
    EXPECT_FALSE(control.is_running());
}

TEST_F(RunControlTest, ALogIsOfOneRun) {
    set_log_level(LogLevel::info);
    run("one");
    const std::string log = bytes("one/log.txt");
    EXPECT_THAT(log, HasSubstr("in memory"));
    run("other");
    EXPECT_EQ(bytes("one/log.txt"), log);
    EXPECT_THAT(bytes("other/log.txt"), HasSubstr("in memory"));
}

// Who holds the file says more in it, for one why the run failed.
TEST_F(RunControlTest, ALogOfAProgramHasWhatItSaysAfterwards) {
    set_log_level(LogLevel::warning);
    LogFile log;
    train(files_, config("run", {}), {.log = &log});
    log_warning("the program is not happy");
    EXPECT_THAT(bytes("run/log.txt"), HasSubstr("the program is not happy"));
    log.close();
    log_warning("nor is it now");
    EXPECT_THAT(bytes("run/log.txt"), testing::Not(HasSubstr("nor is it now")));
}

}  // namespace
}  // namespace windlass
