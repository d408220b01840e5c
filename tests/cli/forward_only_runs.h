// forward_only_runs.h: short runs of forward-only methods through the real program, and what must be the same of two.
#pragma once

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "format/trajectory.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {

struct ForwardOnlySetup {
    std::string model;  // llama_tiny: stored as bf16; gpt2: as f32
    std::string method;
    bool on_disk = false;
    std::string kept;     // which factors of directions of low rank; empty: Gaussian ones
    std::string storage;  // of weights; empty: as_file. With nf4 matrices of layers are frozen, or merged never
    std::string merges;   // when updates are merged into weights; empty: at each step
};

inline void PrintTo(const ForwardOnlySetup& setup, std::ostream* out) {
    *out << setup.model << ", " << setup.method << (setup.on_disk ? " on disk" : " in memory")
         << (setup.kept.empty() ? "" : ", low rank") << (setup.storage.empty() ? "" : ", ") << setup.storage
         << (setup.merges.empty() ? "" : ", merged ") << setup.merges;
}

inline std::string name_of_forward_only(const testing::TestParamInfo<ForwardOnlySetup>& info) {
    return fmt::format("{}_{}_{}{}{}{}{}", info.param.model, info.param.method,
                       info.param.on_disk ? "on_disk" : "in_memory", info.param.kept.empty() ? "" : "_low_rank",
                       info.param.storage.empty() ? "" : "_" + info.param.storage,
                       info.param.merges.empty() ? "" : "_folded_", info.param.merges);
}

// Two directions, decay, and a learning rate that moves weights far enough to be seen in bf16.
inline Settings settings_of(Sandbox& sandbox, const ForwardOnlySetup& setup, int64_t steps) {
    Settings settings = setup.on_disk ? sandbox.training_on_disk(setup.model) : sandbox.training(setup.model);
    settings["method"] = setup.method;
    settings["directions"] = "2";
    if (!setup.kept.empty()) {
        settings["noise"] = "low_rank";
        settings["noise_window"] = "5";  // runs are killed in the middle of windows
        settings["noise_kept"] = setup.kept;
    }
    if (!setup.storage.empty()) settings["weight_storage"] = setup.storage;
    if (setup.storage == "nf4" && setup.merges.empty())
        settings["freeze"] = setup.model == "gpt2" ? "*.c_*.weight" : "*_proj.weight";
    if (!setup.merges.empty()) settings["merge_updates"] = setup.merges;
    if (setup.merges == "never") settings["noise_window"] = "0";
    settings["learning_rate"] = "1e-4";
    settings["weight_decay"] = "0.1";
    settings["warmup_steps"] = "3";
    settings["gradient_accumulation_steps"] = "3";  // of ten rows: epochs end inside of steps
    settings["max_steps"] = std::to_string(steps);
    settings["save_steps"] = "null";
    return settings;
}

inline std::string log_of(const Sandbox& sandbox) {
    return sandbox.out() + "/trajectory.wlt";
}
// The bytes of each tensor: files may hold them in another order.
using Weights = std::map<std::string, std::string>;
inline Weights weights_in(const std::string& folder) {
    const Tensors tensors = read_safetensors(folder + "/model.safetensors");
    Weights weights;
    for (const auto& [name, tensor] : tensors.header.items()) {
        if (name == "__metadata__") continue;
        const auto begin = tensor["data_offsets"][0].get<size_t>(), end = tensor["data_offsets"][1].get<size_t>();
        weights[name] = tensors.data.substr(begin, end - begin);
    }
    return weights;
}

// The weights of this step of the sandbox's run, made again.
inline Weights replayed(const Sandbox& sandbox, const ForwardOnlySetup& setup, int64_t step) {
    const std::string target = sandbox / fmt::format("replayed-{}", step);
    const Json result = json_of(sandbox.windlass({"replay", sandbox / setup.model, log_of(sandbox), "--to", target,
                                                  "--step", std::to_string(step), "--json", "--threads", "2"}));
    EXPECT_EQ(result.value("step", int64_t{-1}), step);
    return weights_in(target);
}

struct ForwardOnlyOutcome {
    Weights weights;
    std::string log;
    Json run_state;
    std::vector<Json> metrics;
};

inline ForwardOnlyOutcome outcome_of(const Sandbox& sandbox) {
    Json state = read_json(sandbox.out() + "/trajectory.json");
    state.erase("metrics");  // it holds times
    for (const char* own : {"run_id", "part_id", "checksum"}) state.erase(own);
    // Names of folders differ, and with them the header and every sum; numbers do not.
    TrajectoryReader log = TrajectoryReader::open(real_files(), log_of(sandbox));
    std::string numbers;
    for (const TrajectoryRecord& record : log.read(log.first_step(), log.last_step()))
        numbers += fmt::format("{} {} {} {} {}\n", record.step, record.learning_rate, record.decay, record.applied,
                               fmt::join(record.scalars, " "));
    return {weights_in(sandbox.out() + "/final"), numbers, state, metrics_of(sandbox.out())};
}

inline void expect_same(const ForwardOnlyOutcome& outcome, const ForwardOnlyOutcome& expected) {
    EXPECT_TRUE(outcome.weights == expected.weights) << "final weights differ";
    EXPECT_EQ(outcome.log, expected.log);
    EXPECT_EQ(outcome.run_state, expected.run_state);
    ASSERT_EQ(outcome.metrics.size(), expected.metrics.size()) << "a step is missing or there twice";
    for (size_t i = 0; i < expected.metrics.size(); ++i) EXPECT_EQ(outcome.metrics[i], expected.metrics[i]);
}

inline ForwardOnlyOutcome uninterrupted(const ForwardOnlySetup& setup, int64_t steps, const Settings& changes = {}) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox, setup, steps);
    for (const auto& [key, value] : changes) settings[key] = value;
    must_succeed(sandbox.train(settings));
    return outcome_of(sandbox);
}

// Lets a run do so many steps, then kills it; the number of lines that it had written.
inline size_t kill_after(const Sandbox& sandbox, const Settings& settings, const std::vector<std::string>& how,
                         size_t steps) {
    Process process(sandbox.train(settings, how));
    EXPECT_TRUE(wait_until([&] { return metrics_of(sandbox.out()).size() >= steps || !process.is_running(); }, 60));
    process.send(SIGKILL);
    const Finished finished = process.wait();
    EXPECT_EQ(finished.signal, SIGKILL) << describe(finished);
    return metrics_of(sandbox.out()).size();
}

}  // namespace windlass::cli
