// Signals at random moments change nothing of a run: no abort, no other weight. The products here are small enough to
// be of the kind whose generated code a handler on the same stack breaks.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kSignalsOfARun = 20;

struct Storm {
    std::string dtype;
    int threads = 1;
    int saving_runs = 0;    // each asked for a checkpoint over and over
    int stopping_runs = 0;  // each ended by one signal and resumed
    uint32_t seed = 0;
};

void PrintTo(const Storm& storm, std::ostream* out) {
    *out << storm.dtype << ", " << storm.threads << " threads, seed " << storm.seed;
}

// "SigBlk: 0000000000004a03" of /proc/PID/status: whether it holds or catches this signal. Before, in the first
// milliseconds of the program, a signal ends any program; before these, a process that is being started holds all
// signals, also one that the program never holds.
bool takes(pid_t process, int signal) {
    std::ifstream status(fmt::format("/proc/{}/status", process));
    for (std::string line; std::getline(status, line);) {
        if (!line.starts_with("SigBlk:") && !line.starts_with("SigCgt:")) continue;
        const auto has = [&](int number) {
            return (std::stoull(line.substr(7), nullptr, 16) >> (number - 1) & 1) != 0;
        };
        if (has(SIGQUIT)) return false;
        if (has(signal)) return true;
    }
    return false;
}

class Signalled : public testing::TestWithParam<Storm> {
  protected:
    static constexpr int64_t kSteps = 24;

    // A run of these numbers that nothing disturbs.
    struct Reference {
        std::string weights;
        double seconds = 0;
    };
    Signalled() : random_(GetParam().seed) {
        static std::map<std::string, Reference> known;
        const std::string name = fmt::format("{} {}", GetParam().dtype, GetParam().threads);
        if (!known.contains(name)) known[name] = run_undisturbed();
        reference_ = known[name];
    }
    static Reference run_undisturbed() {
        for (const bool on_disk : {false, true}) {
            Sandbox sandbox;
            must_succeed(sandbox.train(settings_of(sandbox, on_disk)));  // the machine is measured
        }
        Sandbox sandbox;
        const double begin = clock_seconds();
        must_succeed(sandbox.train(settings_of(sandbox, false)));
        const double seconds = clock_seconds() - begin;
        return {weights_of(sandbox), seconds};
    }
    static Settings settings_of(Sandbox& sandbox, bool on_disk) {
        Settings settings = on_disk ? sandbox.training_on_disk() : sandbox.training();
        settings["dtype"] = GetParam().dtype;
        settings["threads"] = std::to_string(GetParam().threads);
        settings["per_device_train_batch_size"] = "2";
        settings["gradient_accumulation_steps"] = "4";
        settings["max_steps"] = std::to_string(kSteps);
        settings["save_steps"] = "null";
        settings["save_total_limit"] = "1";
        return settings;
    }
    static std::string weights_of(const Sandbox& sandbox) {
        return read_bytes(sandbox.out() + "/final/model.safetensors");
    }
    std::vector<double> moments(int count) {
        std::uniform_real_distribution<double> moment(0, reference_.seconds);
        std::vector<double> found;
        for (int i = 0; i < count; ++i) found.push_back(moment(random_));
        std::ranges::sort(found);
        return found;
    }
    // Sends it at each of these moments, counted from when the program takes it, while it runs.
    static int send_at(Process& process, int signal, const std::vector<double>& moments) {
        if (!wait_until([&] { return takes(process.id(), signal) || !process.is_running(); }, 60)) return 0;
        const double begin = clock_seconds();
        int sent = 0;
        for (const double moment : moments) {
            std::this_thread::sleep_for(std::chrono::duration<double>(begin + moment - clock_seconds()));
            if (!process.is_running()) break;
            process.send(signal);
            ++sent;
        }
        return sent;
    }
    // Ends a run by one signal and lets it go on, until it is done. Whether it was not done before the signal.
    void stop_and_resume(int signal, bool on_disk, bool& was_stopped) {
        Sandbox sandbox;
        const Settings settings = settings_of(sandbox, on_disk);
        const double begin = clock_seconds();
        Process process(sandbox.train(settings));
        send_at(process, signal, moments(1));
        Finished finished = process.wait();
        reference_.seconds = std::min(reference_.seconds, clock_seconds() - begin);
        was_stopped = finished.code != 0;
        const bool saved = finished.code == (signal == SIGINT ? 130 : 143);
        // Before the first step, or where nothing was saved, there is nothing to resume, and the program says so.
        const bool died = finished.signal == signal;
        ASSERT_TRUE(finished.code == 0 || saved || died) << describe(finished);
        const bool has_nothing = died || finished.err.find("with nothing saved. To begin again: ") != std::string::npos;
        if (was_stopped) {
            finished = run(sandbox.train(settings, {"--resume"}));
            if (finished.code == 2 && has_nothing) finished = run(sandbox.train(settings, {"--overwrite"}));
        }
        ASSERT_EQ(finished.code, 0) << describe(finished);
        EXPECT_TRUE(weights_of(sandbox) == reference_.weights) << "weights differ after signal " << signal;
    }

    std::mt19937 random_;
    Reference reference_;
};

TEST_P(Signalled, HoldsProductsOfTheKindThatAHandlerBreaks) {
    Sandbox sandbox;
    Command command = sandbox.train(settings_of(sandbox, false));
    command.environment["ONEDNN_VERBOSE"] = "1";
    const char* const kernels = std::getenv("WINDLASS_CPU");
    if (kernels != nullptr && std::string_view(kernels) == "baseline") GTEST_SKIP() << "no generated code";
    // oneDNN 2 says the one, oneDNN 3 the other.
    EXPECT_THAT(must_succeed(command).out,
                testing::AnyOf(testing::HasSubstr("gemm:jit"), testing::HasSubstr("brg_matmul")));
}

TEST_P(Signalled, RequestsToSaveChangeNoWeight) {
    int sent = 0, saving = 0;
    for (int trial = 0; trial < GetParam().saving_runs && !HasFatalFailure(); ++trial) {
        Sandbox sandbox;
        const double begin = clock_seconds();
        Process process(sandbox.train(settings_of(sandbox, trial % 4 == 3)));
        sent += send_at(process, SIGUSR1, moments(kSignalsOfARun));
        const Finished finished = process.wait();
        ASSERT_EQ(finished.code, 0) << "trial " << trial << ": " << describe(finished);
        EXPECT_TRUE(weights_of(sandbox) == reference_.weights) << "trial " << trial << ": weights differ";
        saving += finished.err.find("\nsaved ") != std::string::npos;
        // The machine may have become faster since: signals behind the end of a run try nothing.
        reference_.seconds = std::min(reference_.seconds, clock_seconds() - begin);
    }
    RecordProperty("signals", sent);
    fmt::print("{} signals to {} runs, of which {} saved when asked\n", sent, GetParam().saving_runs, saving);
    EXPECT_GT(saving, 0);
}

TEST_P(Signalled, AStopAndAResumeChangeNoWeight) {
    constexpr std::array<int, 3> kStops = {SIGTERM, SIGINT, SIGHUP};
    const int wanted = GetParam().stopping_runs;
    int stopped = 0;
    for (int trial = 0; stopped < wanted && trial < 10 * wanted && !HasFatalFailure(); ++trial) {
        bool was_stopped = false;
        stop_and_resume(kStops[static_cast<size_t>(stopped) % 3], stopped % 2 == 1, was_stopped);
        stopped += was_stopped ? 1 : 0;
    }
    RecordProperty("stopped", stopped);
    EXPECT_EQ(stopped, wanted);
}

std::string name_of_storm(const testing::TestParamInfo<Storm>& info) {
    return fmt::format("{}_{}_threads", info.param.dtype, info.param.threads);
}

INSTANTIATE_TEST_SUITE_P(Numbers, Signalled,
                         testing::Values(Storm{"f32", 1, 3, 3, 1}, Storm{"bf16", 1, 3, 3, 2}, Storm{"f32", 2, 3, 3, 3},
                                         Storm{"bf16", 2, 3, 3, 4}),
                         name_of_storm);
INSTANTIATE_TEST_SUITE_P(SlowNumbers, Signalled,
                         testing::Values(Storm{"f32", 1, 75, 25, 5}, Storm{"bf16", 1, 75, 25, 6},
                                         Storm{"f32", 2, 75, 25, 7}, Storm{"bf16", 2, 75, 25, 8}),
                         name_of_storm);

// ---- what the four do to a program that trains nothing ----

class OtherVerbs : public testing::TestWithParam<int> {};

// Processes that were begun with a word that holds this text.
int processes_with(const std::string& text) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        std::ifstream file(entry.path() / "cmdline");
        std::string words;
        std::getline(file, words);  // of a process that has just ended it reads nothing, where an iterator throws
        count += words.find(text) != std::string::npos;
    }
    return count;
}

// While it measures the machine, which a process of its own does: both end.
TEST_P(OtherVerbs, EndByTheSignalItself) {
    Sandbox sandbox;
    Command command = sandbox.windlass({"plan", "--model", sandbox.model(), "--threads", "1"});
    command.environment["XDG_CACHE_HOME"] = sandbox / "cache";
    Process process(command);
    ASSERT_TRUE(wait_until([&] { return takes(process.id(), GetParam()); }, 60));
    process.send(SIGUSR1);  // means nothing here
    ASSERT_TRUE(wait_until([&] { return processes_with(sandbox.path()) == 2; }, 60)) << process.messages();
    process.send(GetParam());
    const Finished finished = process.wait();
    EXPECT_EQ(finished.signal, GetParam()) << describe(finished);
    EXPECT_TRUE(wait_until([&] { return processes_with(sandbox.path()) == 0; }, 1)) << "an orphan measures on";
}

INSTANTIATE_TEST_SUITE_P(Stops, OtherVerbs, testing::Values(SIGINT, SIGTERM, SIGHUP));

// The plan was found: Ctrl-C ends what is compared with it, and keeps what is there.
TEST(Interrupt, EndsAComparisonAndKeepsThePlan) {
    Sandbox sandbox;
    Command command =
        sandbox.windlass({"plan", "--model", source_dir() + "/examples/plans/Llama-3.2-1B", "--machine",
                          "h100-server-4gen5", "--policy", "in_memory", "--compare-seconds", "0", "--no-plan-cache"});
    Process process(command);
    ASSERT_TRUE(wait_until([&] { return process.messages().find("comparing with") != std::string::npos; }, 300));
    process.send(SIGINT);
    const Finished finished = process.wait();
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_THAT(finished.out, testing::HasSubstr("\nPer step  "));
    EXPECT_THAT(finished.out, testing::HasSubstr("zeroth_order; "));
    EXPECT_THAT(finished.out, testing::HasSubstr(" (interrupted). Try: windlass plan --model "));
    EXPECT_THAT(finished.out, testing::EndsWith("\nFITS\n"));
}

TEST(Hangup, SavesAndLeaves) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "100000";
    Process process(sandbox.train(settings));
    ASSERT_TRUE(wait_until([&] { return metrics_of(sandbox.out()).size() >= 2; }, 60));
    process.send(SIGHUP);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 143) << describe(stopped);
    EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}", sandbox.out(), metrics_of(sandbox.out()).size())));
}

}  // namespace
}  // namespace windlass::cli
