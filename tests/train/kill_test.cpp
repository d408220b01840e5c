// SIGKILL at random moments, many times a run, under every policy: each time the run goes on where it was, and ends
// with the bits of a run that nobody disturbed: losses, weights, masters and moments.
//
// A trial is a fork of this program that trains, not the whole program, which measures the machine and reads its
// settings first (tests/cli/resume_test.cpp kills that): so nearly all of them die inside of steps, which is asserted.
#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "format/store.h"
#include "schedule/machine_text.h"
#include "session/machine_cache.h"
#include "session/session.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSteps = 48;
// In CI: that a run may die at any of its changes to a drive is what death_test.cpp shows, of more kinds.
constexpr int kFewKills = 4;
constexpr int64_t kStepsBetweenKills = 7;  // at most; far more than between two checkpoints, so that all runs get on

struct Trials {
    std::string name;
    Settings placement;
    int kills = 0;
    uint32_t seed = 0;
    Settings trained = {};      // what is trained, where it is not the whole model
    bool slow_updates = false;  // of the host: state visits the device
};

void PrintTo(const Trials& trials, std::ostream* out) {
    *out << trials.kills << " kills of " << trials.name;
}

// When kills came: at which step of the run, and how far into it, in steps of the length of the one before.
class Moments {
  public:
    void add(int64_t steps_done, double into_step) {
        ++by_step_[static_cast<size_t>(std::clamp<int64_t>(steps_done * kQuarters / kSteps, 0, kQuarters - 1))];
        ++by_part_[static_cast<size_t>(std::clamp(into_step * kQuarters, 0.0, double{kQuarters}))];
        if (steps_done > 0 && steps_done < kSteps) ++inside_;
        ++all_;
    }
    int all() const { return all_; }
    int inside() const { return inside_; }  // after the first step and before the last
    const auto& by_step() const { return by_step_; }
    std::string text() const {
        return fmt::format(
            "{} kills, {} of them between the first step and the last; by quarter of the run {}; by "
            "quarter of a step, and later {}",
            all_, inside_, fmt::join(by_step_, " "), fmt::join(by_part_, " "));
    }

  private:
    static constexpr int kQuarters = 4;
    std::array<int, kQuarters> by_step_{};
    std::array<int, kQuarters + 1> by_part_{};
    int all_ = 0, inside_ = 0;
};

class KillTest : public TrainTest, public testing::WithParamInterface<Trials> {
  protected:
    Settings settings() const {
        Settings settings = {{"max_steps", std::to_string(kSteps)},
                             {"lr_scheduler_type", "cosine"},
                             {"gradient_checkpointing", "false"}};  // so that plans are found sooner
        for (const auto& group : {GetParam().placement, GetParam().trained, found_})
            for (const auto& [key, value] : group) settings[key] = value;
        return settings;
    }
    // A machine whose device updates ten times as fast as its host. Calls are cheap there: a step that took a third of
    // its plan would have the machine measured again, and other plans would follow.
    void make_updates_slow() {
        const std::string path = machine_cache_path("", /*threads=*/2);
        Machine machine = parse_machine(read_text(files_, path, kMachineTextMax), path);
        machine.unified_memory = false;
        machine.kernel_seconds = machine.task_seconds = 1e-6;
        machine.device_memory_bytes = machine.memory_bytes;
        machine.device_memory_bytes_per_s = machine.link_up_bytes_per_s = machine.link_down_bytes_per_s =
            machine.memory_bytes_per_s;
        machine.update_bytes_per_s = machine.memory_bytes_per_s / 10;
        std::ofstream(path) << machine_text(machine);
        ASSERT_TRUE(find_visited_device());
    }
    // The first memory of the device, from little on, that holds weights and not all of the state.
    bool find_visited_device() {
        for (int kib = 1600; kib < 3000; kib += 40) {
            found_ = {{"device_memory", fmt::format("{} KiB", kib)}};
            try {
                if (prepare_session(files_, config("planned", settings()), std::nullopt).planned.plan.device_groups > 0)
                    return true;
            } catch (const UserError&) {
                continue;  // does not fit
            }
        }
        return false;
    }
    static const char* weights() {
        const auto adapter = GetParam().trained.find("adapter");
        const bool ends_as_adapter = adapter != GetParam().trained.end() && adapter->second != "lsp";
        return ends_as_adapter ? kAdapterWeights : kWeights;
    }
    // Kernels that were measured while others used the processor are doubted by a step, and all rates forgotten: plans
    // would be others from then on.
    void keep_machine() {
        const std::string path = machine_cache_path("", /*threads=*/2);
        if (files_.exists(path))
            machine_ = read_text(files_, path, kMachineTextMax);
        else
            std::ofstream(path) << machine_;
    }
    // Trains in a process that is killed within a few steps from where it begins. Returns how that ended.
    int trial(const Settings& settings, std::mt19937& random, Moments& moments) {
        const int64_t grow = std::uniform_int_distribution<int64_t>(1, kStepsBetweenKills)(random);
        const double part = std::uniform_real_distribution<double>(0, 1)(random);
        int64_t last = std::ssize(history("killed")), grown = 0, done = 0;
        Clock::time_point before = Clock::now();
        double into_step = 0;
        const int code = run_apart("killed", settings, [&](int pid, int64_t lines) {
            const Clock::time_point now = Clock::now();
            grown += std::max<int64_t>(0, lines - last);  // what follows the state that it resumes from is cut first
            last = lines;
            if (grown >= grow) {
                const auto step = std::min<Clock::duration>(now - before, kLongestStep);
                std::this_thread::sleep_for(part * step);
                done = lines, into_step = std::chrono::duration<double>(Clock::now() - now) / step;
                kill(pid, SIGKILL);
            }
            before = now;
        });
        if (code == 128 + SIGKILL) moments.add(done, into_step);
        return code;
    }
    // Masters and moments of the last checkpoint: chunk by chunk, since where a chunk lies follows from what happened.
    std::string state_of(const std::string& run) const {
        const std::string name = fmt::format("{}/checkpoint-{}/state.wls", run, kSteps);
        const Store store = Store::open(real_files(), at(name), OpenMode::read);
        const std::string file = bytes(name);
        std::string all;
        for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
            const int version = store.current_version(chunk);
            for (const Extent& extent : {store.weight_extent(chunk, version), store.state_extent(chunk, version)})
                all.append(file, static_cast<size_t>(extent.offset), static_cast<size_t>(extent.bytes));
        }
        return all;
    }
    void expect_whole(int kills) const {
        EXPECT_EQ(history("killed"), history("whole")) << "after " << kills << " kills";
        EXPECT_GT(bytes(std::string("whole") + weights()).size(), 0u);
        EXPECT_TRUE(bytes(std::string("killed") + weights()) == bytes(std::string("whole") + weights())) << kills;
        EXPECT_TRUE(state_of("killed") == state_of("whole")) << "masters or moments, after " << kills << " kills";
        for (const auto& entry : fs::recursive_directory_iterator(at("killed")))
            EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    }

    static constexpr Clock::duration kLongestStep = std::chrono::milliseconds(200);
    Settings found_;
    std::string machine_;
};

TEST_P(KillTest, LosesNothing) {
    if (GetParam().slow_updates) {
        ASSERT_NO_FATAL_FAILURE(make_updates_slow());
    }
    const std::string steps = std::to_string(kSteps);
    Settings whole = {{"max_steps", steps}, {"save_steps", steps}, {"lr_scheduler_type", "cosine"}};
    whole.merge(Settings(GetParam().trained));
    run("whole", whole);
    std::mt19937 random(GetParam().seed);
    Moments moments;
    std::string how = "overwrite";
    while (!HasFailure()) {
        Settings next = settings();
        next[how] = how == "resume" ? "auto" : "true";
        keep_machine();
        const bool ends = moments.all() >= GetParam().kills;
        const int code = ends ? run_apart("killed", next, [](int, int64_t) {}) : trial(next, random, moments);
        if (code == 0) {
            expect_whole(moments.all());
            if (ends) break;
        } else if (code != 128 + SIGKILL) {
            // Nothing was kept yet: only before the first checkpoint, and said as any wrong request is.
            ASSERT_EQ(code, static_cast<int>(ExitCode::usage)) << "after " << moments.all() << " kills";
            ASSERT_LE(history("killed").size(), 2u) << "a checkpoint was there";
        }
        how = code == 128 + SIGKILL ? "resume" : "overwrite";
    }
    fmt::print("{}: {}\n", GetParam().name, moments.text());
    if (moments.all() <= kFewKills) return;
    EXPECT_GE(moments.inside() * 4, moments.all() * 3) << moments.text();
    const auto& quarters = moments.by_step();
    EXPECT_GE((quarters[0] + quarters[1]) * 5, moments.all()) << moments.text();
    EXPECT_GE((quarters[2] + quarters[3]) * 5, moments.all()) << moments.text();
}

const Settings kInMemory = {{"policy", "in_memory"}, {"save_steps", "2"}, {"save_total_limit", "2"}};
const Settings kHostStream = {
    {"policy", "host_stream"}, {"device", "cpu:emulate"}, {"save_steps", "2"}, {"save_total_limit", "2"}};

Settings on_disk(const std::string& update_time) {
    return {{"policy", "three_tier"}, {"update_time", update_time}, {"save_steps", std::to_string(kSteps)}};
}

const Settings kLora = {{"adapter", "lora"}, {"lora_r", "4"}}, kQlora = {{"adapter", "qlora"}, {"lora_r", "4"}};

// Two refreshes, at least, of what is on disk and in memory.
const Settings kLsp = {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "5"}, {"lsp_samples", "4"}};
const Settings kLomo = {{"method", "lomo"}};
const Settings kLomoOnDisk = {{"policy", "three_tier"}, {"save_steps", std::to_string(kSteps)}};

std::string name_of(const testing::TestParamInfo<Trials>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Policies, KillTest,
                         testing::Values(Trials{"in_memory", kInMemory, kFewKills, 1},
                                         Trials{"host_stream", kHostStream, kFewKills, 2},
                                         Trials{"three_tier_after_backward", on_disk("after_backward"), kFewKills, 3},
                                         Trials{"three_tier_in_backward", on_disk("in_backward"), kFewKills, 4},
                                         Trials{"three_tier_next_forward", on_disk("next_forward"), kFewKills, 5},
                                         Trials{"visited_device", kHostStream, kFewKills, 27, {}, true},
                                         Trials{"lora_in_memory", kInMemory, kFewKills, 11, kLora},
                                         Trials{"qlora_three_tier", on_disk("in_backward"), kFewKills, 12, kQlora},
                                         Trials{"lsp_three_tier", on_disk("next_forward"), kFewKills, 17, kLsp},
                                         Trials{"lomo_three_tier", kLomoOnDisk, kFewKills, 18, kLomo}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(SlowPolicies, KillTest,
                         testing::Values(Trials{"in_memory", kInMemory, 200, 6},
                                         Trials{"host_stream", kHostStream, 200, 7},
                                         Trials{"three_tier_after_backward", on_disk("after_backward"), 170, 8},
                                         Trials{"three_tier_in_backward", on_disk("in_backward"), 165, 9},
                                         Trials{"three_tier_next_forward", on_disk("next_forward"), 165, 10},
                                         Trials{"visited_device", kHostStream, 100, 24, {}, true},
                                         Trials{"lora_in_memory", kInMemory, 100, 13, kLora},
                                         Trials{"lora_three_tier", on_disk("next_forward"), 100, 14, kLora},
                                         Trials{"qlora_host_stream", kHostStream, 100, 15, kQlora},
                                         Trials{"qlora_three_tier", on_disk("in_backward"), 100, 16, kQlora},
                                         Trials{"lsp_in_memory", kInMemory, 100, 19, kLsp},
                                         Trials{"lsp_three_tier", on_disk("in_backward"), 100, 20, kLsp},
                                         Trials{"lomo_in_memory", kInMemory, 100, 21, kLomo},
                                         Trials{"lomo_three_tier", kLomoOnDisk, 100, 22, kLomo}),
                         name_of);

}  // namespace
}  // namespace windlass
