// A run that was stopped and resumed is the same run, bit for bit: final weights, masters and moments, and every loss.
// Stopped by max_steps, by signals, and by SIGKILL at random moments; state in memory and on disk; across epochs.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "format/store.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

struct Setup {
    std::string model;
    bool on_disk = false;
    std::string update_time = "auto";
    bool emulated = false;  // on a device with a memory of its own
    std::string method = "adamw";
};

void PrintTo(const Setup& setup, std::ostream* out) {
    *out << setup.model << (setup.on_disk ? " on disk" : " in memory") << ", update " << setup.update_time
         << (setup.emulated ? ", emulated device, " : ", ") << setup.method;
}

std::string name_of(const testing::TestParamInfo<Setup>& info) {
    const Setup& setup = info.param;
    return setup.model + (setup.on_disk ? "_on_disk" : "_in_memory") +
           (setup.update_time == "auto" ? "" : "_" + setup.update_time) + (setup.emulated ? "_emulated" : "") +
           (setup.method == "adamw" ? "" : "_" + setup.method);
}

// Three rows a step out of ten: epochs end inside of steps.
Settings settings_of(Sandbox& sandbox, const Setup& setup, int64_t steps) {
    Settings settings = setup.on_disk ? sandbox.training_on_disk(setup.model) : sandbox.training(setup.model);
    settings["gradient_accumulation_steps"] = "3";
    settings["max_steps"] = std::to_string(steps);
    settings["warmup_steps"] = "3";
    settings["weight_decay"] = "0.01";
    settings["update_time"] = setup.update_time;
    settings["method"] = setup.method;
    if (setup.emulated) settings["device"] = "cpu:emulate";
    return settings;
}

// What must not depend on how often a run was stopped. A state's layout is left out: it also notes how the run began.
struct Outcome {
    std::string model;   // model.safetensors
    Json run_state;      // position in the data, learning rates, numerics
    std::string chunks;  // weights, low halves and moments
    std::vector<Json> metrics;
};

std::string chunks_of(const Store& store, const std::string& path) {
    const std::string file = read_bytes(path);
    std::string all;
    const auto append = [&](const Extent& extent) {
        all.append(file, static_cast<size_t>(extent.offset), static_cast<size_t>(extent.bytes));
    };
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        append(store.weight_extent(chunk, store.current_version(chunk)));
        append(store.state_extent(chunk, store.current_version(chunk)));
    }
    return all;
}

Outcome outcome_of(const Sandbox& sandbox, int64_t steps) {
    const std::string state = fmt::format("{}/checkpoint-{}/state.wls", sandbox.out(), steps);
    const Store store = Store::open(real_files(), state, OpenMode::read);
    Json run_state = parse_json(store.committed_run_state(), state, ExitCode::internal);
    run_state.erase("metrics");  // it holds times
    for (const char* own : {"run_id", "part_id"}) run_state.erase(own);
    return {read_bytes(sandbox.out() + "/final/model.safetensors"), run_state, chunks_of(store, state),
            metrics_of(sandbox.out())};
}

void expect_same(const Outcome& outcome, const Outcome& expected) {
    EXPECT_TRUE(outcome.model == expected.model) << "final weights differ";
    EXPECT_EQ(outcome.run_state, expected.run_state);
    EXPECT_TRUE(outcome.chunks == expected.chunks) << "masters or moments differ";
    ASSERT_EQ(outcome.metrics.size(), expected.metrics.size()) << "a step is missing or there twice";
    for (size_t i = 0; i < expected.metrics.size(); ++i) EXPECT_EQ(outcome.metrics[i], expected.metrics[i]);
}

// What everything in memory comes to without a stop: the outcome of every placement, so made once for all of them.
const Outcome& uninterrupted(const Setup& setup, int64_t steps, const Settings& changes = {}) {
    static std::map<std::tuple<std::string, std::string, int64_t, Settings>, Outcome> known;
    Outcome& outcome = known[{setup.model, setup.method, steps, changes}];
    if (!outcome.metrics.empty()) return outcome;
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, Setup{.model = setup.model, .method = setup.method}, steps);
    for (const auto& [key, value] : changes) settings[key] = value;
    must_succeed(sandbox.train(settings));
    return outcome = outcome_of(sandbox, steps);
}

bool reaches_step(Process& process, const Sandbox& sandbox, size_t step) {
    return wait_until([&] { return metrics_of(sandbox.out()).size() >= step || !process.is_running(); }, 60) &&
           process.is_running();
}

class Resume : public testing::TestWithParam<Setup> {};

TEST_P(Resume, AfterFewerSteps) {
    const Settings constant = {{"lr_scheduler_type", "constant_with_warmup"}};
    const Outcome expected = uninterrupted(GetParam(), 12, constant);
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 6);
    settings["lr_scheduler_type"] = "constant_with_warmup";
    must_succeed(sandbox.train(settings));
    settings["max_steps"] = "12";
    EXPECT_THAT(must_succeed(sandbox.train(settings, {"--resume"})).err,
                testing::Not(testing::HasSubstr("Already finished")));
    expect_same(outcome_of(sandbox, 12), expected);
    EXPECT_THAT(
        must_succeed(sandbox.train(settings, {"--resume"})).err,
        testing::HasSubstr("Already finished (step 12 of 12). Raise max_steps or num_train_epochs to continue."));
    expect_same(outcome_of(sandbox, 12), expected);
}

// The settings are those that the run wrote down itself, and the placement is another.
TEST_P(Resume, FromItsOwnSettingsUnderAnotherPlacement) {
    const Settings constant = {{"lr_scheduler_type", "constant_with_warmup"}};
    const Outcome expected = uninterrupted(GetParam(), 12, constant);
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 6);
    settings["lr_scheduler_type"] = "constant_with_warmup";
    must_succeed(sandbox.train(settings));
    std::vector<std::string> words = {"train", sandbox.out() + "/run.yaml", "--resume=6", "--max-steps=12"};
    if (GetParam().on_disk) {
        words.insert(words.end(), {"--policy=in_memory", "--ssd-dir=null", "--update-time=auto"});
    } else {
        words.insert(words.end(), {"--policy=three_tier", "--ssd-dir=" + sandbox / "ssd"});
    }
    must_succeed(sandbox.windlass(words));
    expect_same(outcome_of(sandbox, 12), expected);
}

TEST_P(Resume, AfterInterrupt) {
    constexpr int64_t kSteps = 40;
    const Outcome expected = uninterrupted(GetParam(), kSteps);
    Sandbox sandbox;
    const Settings settings = settings_of(sandbox, GetParam(), kSteps);
    Process process(sandbox.train(settings));
    ASSERT_TRUE(reaches_step(process, sandbox, 5)) << describe(process.wait());
    process.send(SIGINT);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 130) << describe(stopped);
    EXPECT_THAT(stopped.err,
                testing::HasSubstr(fmt::format("To continue: windlass train {}/run.yaml --resume\n", sandbox.out())));
    EXPECT_EQ(stopped.out, "");
    EXPECT_FALSE(fs::exists(sandbox.out() + "/final"));
    const size_t steps = metrics_of(sandbox.out()).size();
    EXPECT_LT(steps, static_cast<size_t>(kSteps));
    EXPECT_NE(fs::exists(fmt::format("{}/checkpoint-{}", sandbox.out(), steps)), GetParam().on_disk);
    must_succeed(sandbox.train(settings, {"--resume"}));
    expect_same(outcome_of(sandbox, kSteps), expected);
}

INSTANTIATE_TEST_SUITE_P(Setups, Resume,
                         testing::Values(Setup{"llama3", false}, Setup{"llama3", true}, Setup{"gpt2", false},
                                         Setup{"gpt2", true}, Setup{"llama_tiny", false}, Setup{"llama_tiny", true},
                                         Setup{"gpt2", false, "next_forward"}, Setup{"gpt2", true, "next_forward"},
                                         Setup{"llama3", true, "in_backward"}, Setup{"llama3", true, "next_forward"},
                                         Setup{"llama3", false, "in_backward"}, Setup{"llama3", false, "auto", true},
                                         Setup{"llama3", true, "auto", true},
                                         Setup{"gpt2", false, "auto", false, "zeroth_order"},
                                         Setup{"gpt2", true, "auto", false, "zeroth_order"}),
                         name_of);

class Signals : public testing::TestWithParam<Setup> {};

TEST_P(Signals, TerminateStopsAfterTheStep) {
    Sandbox sandbox;
    const Settings settings = settings_of(sandbox, GetParam(), 100'000);
    Process process(sandbox.train(settings));
    ASSERT_TRUE(reaches_step(process, sandbox, 2)) << describe(process.wait());
    process.send(SIGTERM);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 143) << describe(stopped);
    EXPECT_THAT(unfinished_in(sandbox.path()), testing::IsEmpty());
}

TEST_P(Signals, TwoInterruptsStopAtOnce) {
    Sandbox sandbox;
    const Settings settings = settings_of(sandbox, GetParam(), 100'000);
    Process process(sandbox.train(settings));
    ASSERT_TRUE(reaches_step(process, sandbox, 2)) << describe(process.wait());
    process.send(SIGINT);
    process.send(SIGINT);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 130) << describe(stopped);
    EXPECT_THAT(unfinished_in(sandbox.path()), testing::IsEmpty());
}

bool has_checkpoint(const std::string& run_folder) {
    for (const auto& entry : fs::directory_iterator(run_folder))
        if (fs::exists(entry.path() / "manifest.json") && entry.path().extension() != ".tmp") return true;
    return false;
}

TEST_P(Signals, User1SavesAndGoesOn) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 100'000);
    settings["save_steps"] = "null";
    Process process(sandbox.train(settings));
    ASSERT_TRUE(reaches_step(process, sandbox, 2)) << describe(process.wait());
    process.send(SIGUSR1);
    EXPECT_TRUE(wait_until([&] { return has_checkpoint(sandbox.out()); }, 60));
    const size_t steps = metrics_of(sandbox.out()).size();
    EXPECT_TRUE(reaches_step(process, sandbox, steps + 2));
}

TEST_P(Signals, FileNamedSaveSavesAndGoesOn) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, GetParam(), 100'000);
    settings["save_steps"] = "null";
    Process process(sandbox.train(settings));
    ASSERT_TRUE(reaches_step(process, sandbox, 2)) << describe(process.wait());
    write_bytes(sandbox.out() + "/save", "");
    EXPECT_TRUE(wait_until([&] { return has_checkpoint(sandbox.out()); }, 60));
    EXPECT_FALSE(fs::exists(sandbox.out() + "/save"));
    const size_t steps = metrics_of(sandbox.out()).size();
    EXPECT_TRUE(reaches_step(process, sandbox, steps + 2));
}

INSTANTIATE_TEST_SUITE_P(Setups, Signals,
                         testing::Values(Setup{"llama3", false}, Setup{"llama3", true},
                                         Setup{"llama3", true, "in_backward"}, Setup{"llama3", false, "in_backward"},
                                         Setup{"llama3", false, "next_forward"}, Setup{"llama3", true, "next_forward"}),
                         name_of);

// ---- SIGKILL ----

// A run that is killed again and again.
class Victim {
  public:
    explicit Victim(const Setup& setup) : settings_(settings_of(sandbox_, setup, kSteps)) {
        settings_["save_steps"] = setup.on_disk ? "1000" : "4";
        settings_["save_total_limit"] = "2";
    }
    // Lets it run for so long, then kills it.
    Finished run_for(double seconds) {
        const bool begins = !fs::exists(sandbox_.out() + "/run.yaml");
        const std::vector<std::string> how = begins ? std::vector<std::string>{} : std::vector<std::string>{how_};
        Process process(sandbox_.train(settings_, how));
        wait_until([&] { return !process.is_running(); }, seconds);
        process.send(SIGKILL);
        Finished finished = process.wait();
        // Killed before its first state: there is nothing to resume, and the program says so.
        const bool has_nothing = finished.err.find("neither a checkpoint nor a working store") != std::string::npos;
        how_ = has_nothing ? "--overwrite" : "--resume";
        if (has_nothing) finished.signal = SIGKILL;
        return finished;
    }
    Outcome outcome() const { return outcome_of(sandbox_, kSteps); }
    void expect_tidy() const { EXPECT_THAT(unfinished_in(sandbox_.path()), testing::IsEmpty()); }

    static constexpr int64_t kSteps = 24;

  private:
    Sandbox sandbox_;
    Settings settings_;
    std::string how_ = "--resume";
};

// Kills a run `kills` times at random moments, beginning anew whenever it came to its end, and at last lets it end.
void kill_and_resume(const Setup& setup, int kills, uint32_t seed) {
    ASSERT_EQ(Victim(setup).run_for(120).code, 0);  // the machine is measured
    const double begin = clock_seconds();
    Victim undisturbed(setup);
    ASSERT_EQ(undisturbed.run_for(120).code, 0);
    const Outcome expected = undisturbed.outcome();
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> delay(0, clock_seconds() - begin);
    auto victim = std::make_unique<Victim>(setup);
    for (int killed = 0;;) {
        const Finished finished = victim->run_for(killed < kills ? delay(random) : 120);
        if (finished.signal == SIGKILL) {
            ++killed;
            continue;
        }
        ASSERT_EQ(finished.code, 0) << "after " << killed << " kills: " << describe(finished);
        expect_same(victim->outcome(), expected);
        victim->expect_tidy();
        if (killed >= kills || testing::Test::HasFailure()) return;
        victim = std::make_unique<Victim>(setup);
    }
}

// Twenty kills each time everything is tested, shared by the times at which a plan may update.
struct Kills {
    Setup setup;
    int count = 0;
    uint32_t seed = 0;
};

void PrintTo(const Kills& kills, std::ostream* out) {
    PrintTo(kills.setup, out);
}

class Kill : public testing::TestWithParam<Kills> {};

TEST_P(Kill, LosesNothing) {
    kill_and_resume(GetParam().setup, GetParam().count, GetParam().seed);
}

std::string name_of_kills(const testing::TestParamInfo<Kills>& info) {
    return name_of({info.param.setup, info.index});
}

INSTANTIATE_TEST_SUITE_P(Setups, Kill,
                         testing::Values(Kills{{"llama3", false}, 5, 1},
                                         Kills{{"llama3", true, "after_backward"}, 5, 2},
                                         Kills{{"llama3", true, "in_backward"}, 5, 3},
                                         Kills{{"llama3", true, "next_forward"}, 5, 4},
                                         Kills{{"llama3", true, "in_backward", true}, 5, 10},
                                         Kills{{"llama3", true, "next_forward", true}, 5, 11},
                                         Kills{{"llama3", true, "auto", false, "zeroth_order"}, 5, 12}),
                         name_of_kills);

INSTANTIATE_TEST_SUITE_P(SlowSetups, Kill,
                         testing::Values(Kills{{"gpt2", false}, 100, 5}, Kills{{"gpt2", false, "next_forward"}, 40, 6},
                                         Kills{{"gpt2", true, "after_backward"}, 120, 7},
                                         Kills{{"gpt2", true, "in_backward"}, 120, 8},
                                         Kills{{"gpt2", true, "next_forward"}, 120, 9}),
                         name_of_kills);

}  // namespace
}  // namespace windlass::cli
