// Long runs of forward-only methods through the real program: 200 steps with a cosine schedule, decay, an evaluation
// every ten steps and a kill at a random moment give the same numbers wherever weights live.
#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "tests/cli/forward_only_runs.h"

namespace windlass::cli {
namespace {

constexpr int64_t kSteps = 200;

struct LongRun {
    std::string model;  // gpt2: tied head, llama: a head of its own, both f32; llama_tiny: bf16
    std::string method;
    uint32_t seed = 0;            // of the moments at which it is killed
    std::string storage, merges;  // of weights, and of updates along directions of low rank (ForwardOnlySetup)

    ForwardOnlySetup setup(bool on_disk = false) const {
        return {model, method, on_disk, merges.empty() ? "" : merges == "never" ? "both" : "right", storage, merges};
    }
};

void PrintTo(const LongRun& run, std::ostream* out) {
    *out << run.model << ", " << run.method << ", killed by seed " << run.seed;
}

Settings settings_of(Sandbox& sandbox, const LongRun& run, const std::string& policy) {
    Settings settings = settings_of(sandbox, run.setup(policy == "three_tier"), kSteps);
    settings["policy"] = policy;
    settings["lr_scheduler_type"] = "cosine";
    settings["eval_data"] = sandbox.token_rows();
    settings["eval_steps"] = "10";
    if (run.merges == "per_window")
        settings["noise_window"] = "7";  // evaluations fall into the middle of windows
    else
        settings["writeback_steps"] = "4";
    if (policy == "in_memory") return settings;
    settings["device"] = "cpu:emulate";
    settings["link_rate"] = "20GB";
    return settings;
}

// What evaluations found, in order.
std::vector<double> evaluations_of(const Sandbox& sandbox) {
    std::vector<double> losses;
    const std::string path = sandbox.out() + "/metrics.jsonl";
    std::istringstream text(read_bytes(path));
    for (std::string line; std::getline(text, line);) {
        const Json all = parse_json(line, path, ExitCode::internal);
        if (all.contains("eval_loss")) losses.push_back(all.at("eval_loss"));
    }
    return losses;
}

class SlowLongRun : public testing::TestWithParam<LongRun> {};

TEST_P(SlowLongRun, IsTheSameWhereverWeightsLiveAndWheneverItIsKilled) {
    Sandbox memory;
    must_succeed(memory.train(settings_of(memory, GetParam(), "in_memory")));
    const ForwardOnlyOutcome expected = outcome_of(memory);
    const std::vector<double> evaluations = evaluations_of(memory);
    ASSERT_EQ(evaluations.size(), kSteps / 10);
    EXPECT_NE(evaluations.front(), evaluations.back());
    std::mt19937 random(GetParam().seed);
    std::uniform_int_distribution<size_t> moment(1, kSteps - 20);
    for (const std::string policy : {"in_memory", "host_stream", "three_tier"}) {
        SCOPED_TRACE(policy);
        Sandbox sandbox;
        Settings settings = settings_of(sandbox, GetParam(), policy);
        if (policy != "in_memory") settings["device_memory"] = std::to_string(least_device_memory(sandbox, settings));
        kill_after(sandbox, settings, {}, moment(random));
        must_succeed(sandbox.train(settings, {"--resume"}));
        expect_same(outcome_of(sandbox), expected);
        EXPECT_EQ(evaluations_of(sandbox), evaluations);
        EXPECT_TRUE(replayed(sandbox, GetParam().setup(), kSteps) == expected.weights);
    }
}

INSTANTIATE_TEST_SUITE_P(Models, SlowLongRun,
                         testing::Values(LongRun{"gpt2", "zeroth_order", 1}, LongRun{"llama", "zeroth_order", 2},
                                         LongRun{"llama_tiny", "zeroth_order", 3},
                                         LongRun{"gpt2", "forward_gradient", 4},
                                         LongRun{"llama_tiny", "forward_gradient", 5},
                                         LongRun{"gpt2", "zeroth_order", 6, "f8", "per_window"},
                                         LongRun{"llama_tiny", "zeroth_order", 7, "nf4", "never"}),
                         [](const auto& info) {
                             const LongRun& run = info.param;
                             return run.model + "_" + run.method + (run.merges.empty() ? "" : "_folded_" + run.merges);
                         });

}  // namespace
}  // namespace windlass::cli
