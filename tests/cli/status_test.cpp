// status and runs: what the folder of a run says in each state that it may be in.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Json status_of(const Sandbox& sandbox, const std::string& run) {
    return json_of(sandbox.windlass({"status", run, "--json"}));
}

bool has_lines(const Sandbox& sandbox) {
    const std::string path = sandbox.out() + "/metrics.jsonl";
    return fs::exists(path) && fs::file_size(path) > 0;
}

TEST(Status, OfARunThatTrainsIsStoppedAndGoesOn) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "100000";
    Process process(sandbox.train(settings));
    ASSERT_TRUE(wait_until([&] { return has_lines(sandbox) || !process.is_running(); }, 60));
    const Json training = status_of(sandbox, sandbox.out());
    EXPECT_EQ(training["state"], "training");
    EXPECT_EQ(training["total_steps"], 100000);
    EXPECT_GT(training["step"], 0);
    EXPECT_GT(training["eta_seconds"], 0);
    EXPECT_GT(training["planned_bytes"], training["ram_bytes"].get<int64_t>() / 2);
    // One that is held, but does nothing, trains all the same.
    process.send(SIGSTOP);
    EXPECT_EQ(status_of(sandbox, sandbox.out())["state"], "training");
    process.send(SIGCONT);
    Process follower(sandbox.windlass({"status", sandbox.out(), "--follow"}));
    process.send(SIGINT);
    EXPECT_EQ(process.wait().code, 130);
    const Finished followed = follower.wait();
    EXPECT_EQ(followed.code, 130) << "as the run ended";
    EXPECT_THAT(followed.out, HasSubstr(": stopped, step "));
    const Json stopped = status_of(sandbox, sandbox.out());
    EXPECT_EQ(stopped["state"], "stopped");
    EXPECT_EQ(stopped["exit_code"], 130);
    EXPECT_FALSE(stopped.contains("eta_seconds"));
    EXPECT_EQ(stopped["checkpoints"], Json::array({stopped["step"]}));
    EXPECT_THAT(must_succeed(sandbox.windlass({"status", sandbox.out()})).out, HasSubstr("run.yaml --resume\n"));
}

TEST(Status, OfARunThatIsOverFailedOrWasKilled) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    must_succeed(sandbox.train(settings));
    const Json done = status_of(sandbox, sandbox.out() + "/run.yaml");
    EXPECT_EQ(done["state"], "done");
    EXPECT_EQ(done["has_final"], true);
    EXPECT_EQ(done["step"], 2);
    EXPECT_EQ(run(sandbox.windlass({"status", sandbox.out(), "--follow"})).code, 0);

    settings["output_dir"] = sandbox / "diverged";
    settings["loss_watchdog_threshold"] = "0.001";
    settings["loss_watchdog_patience"] = "1";
    const int code = run(sandbox.train(settings)).code;
    const Json failed = status_of(sandbox, sandbox / "diverged");
    EXPECT_EQ(failed["state"], "failed");
    EXPECT_EQ(failed["exit_code"], code);
    EXPECT_NE(failed["reason"], "");
    EXPECT_EQ(run(sandbox.windlass({"status", sandbox / "diverged", "--follow"})).code, code);

    Settings long_run = sandbox.training();
    long_run["max_steps"] = "100000";
    Process process(sandbox.train(long_run, {"--overwrite"}));
    ASSERT_TRUE(wait_until([&] { return has_lines(sandbox) && !fs::exists(sandbox.out() + "/final"); }, 60));
    process.send(SIGKILL);
    process.wait();
    EXPECT_EQ(status_of(sandbox, sandbox.out())["state"], "killed");
    const std::string nothing_saved = must_succeed(sandbox.windlass({"status", sandbox.out()})).out;
    EXPECT_THAT(nothing_saved, HasSubstr(" --overwrite\n"));
    EXPECT_THAT(nothing_saved, testing::Not(HasSubstr("--resume")));
    EXPECT_EQ(run(sandbox.windlass({"status", sandbox.out(), "--follow"})).code, 143);

    const Json runs = json_of(sandbox.windlass({"runs", sandbox.path(), "--json"}))["runs"];
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0]["folder"], sandbox / "diverged");
    EXPECT_EQ(runs[1]["state"], "killed");
    EXPECT_THAT(must_succeed(sandbox.windlass({"runs", sandbox.path()})).out, HasSubstr(" failed"));
}

// What programs before this one wrote, and what others wrote into its files.
TEST(Status, DoesWithoutEventsAndWithDamagedLines) {
    Sandbox sandbox;
    must_succeed(sandbox.train(sandbox.training()));
    fs::remove(sandbox.out() + "/events.jsonl");
    EXPECT_EQ(status_of(sandbox, sandbox.out())["state"], "done");
    write_bytes(sandbox.out() + "/events.jsonl",
                "[]\n{\"event\": 7}\n{\"event\":\"error\",\"code\":\"x\",\"text\":[]}\nnothing\n{\"event\":\"done\"");
    write_bytes(sandbox.out() + "/metrics.jsonl", "{\"step\": 1e99}\n{\"step\": 7, \"loss\": \"NaN\"}\n{");
    const Json status = status_of(sandbox, sandbox.out());
    EXPECT_EQ(status["state"], "failed");
    EXPECT_EQ(status["step"], 7);
    EXPECT_FALSE(status.contains("loss"));
}

TEST(Status, OfWhatIsNoRunIsRefused) {
    Sandbox sandbox;
    const Finished finished = run(sandbox.windlass({"status", sandbox.path()}));
    EXPECT_EQ(finished.code, kUsage);
    EXPECT_THAT(finished.err, HasSubstr("is not the folder of a run. Try: windlass runs\n"));
    EXPECT_EQ(must_succeed(sandbox.windlass({"runs", sandbox.path()})).out, "");
}

}  // namespace
}  // namespace windlass::cli
