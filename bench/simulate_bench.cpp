// simulate_bench: what planning costs: seconds of lower, check and simulate for very large models, and of an estimate.
//
//   simulate_bench [opt-175b | llama-405b [GROUP_CHUNKS]]
//
// Everything on disk, on a device with its own memory: the plan with the most tasks. Prints the median of several
// rounds.
#include <algorithm>

#include "measure.h"
#include "model/families.h"
#include "plan/estimate.h"
#include "schedule/check.h"
#include "schedule/lower.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"

namespace windlass {
namespace {

constexpr const char* kOpt175b = R"({"model_type": "opt", "hidden_size": 12288, "ffn_dim": 49152,
    "num_hidden_layers": 96, "num_attention_heads": 96, "max_position_embeddings": 2048, "vocab_size": 50272,
    "word_embed_proj_dim": 12288, "do_layer_norm_before": true, "activation_function": "relu"})";
constexpr const char* kLlama405b = R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
    "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false})";

constexpr int kRounds = 7;

// Median of several rounds, in milliseconds.
template <typename Work>
double median_ms(Work work) {
    return 1e3 * median_seconds(kRounds, work);
}

Plan everything_on_disk(int group_chunks) {
    return {.policy = "three_tier",
            .device = {.kind = DeviceKind::fake, .own_memory = true},
            .threads = 8,
            .host_threads = 8,
            .store = true,
            .group_chunks = group_chunks,
            .common = {.weights = Home::disk,
                       .state = Home::disk,
                       .gradients = Home::disk,
                       .block_input = Home::host,
                       .update = UpdateTime::in_backward,
                       .recompute = true}};
}

void measure(const char* name, const char* config_text, const Machine& machine, const std::vector<int>& groups) {
    HfConfig config = HfConfig::parse(config_text, "config.json");
    const TrainedModel model(build_model(config, {}));
    const Recipe recipe = make_recipe("adamw", {});
    const Numerics numerics{.micro_batch_size = 2, .micro_batches = 4, .sequence_lengths = {2048}};
    const std::vector<ScheduleRequest> requests = {{.rows = numerics.micro_batch_size,
                                                    .sequence_length = 2048,
                                                    .micro_batches = static_cast<int>(numerics.micro_batches)}};
    for (const int group : groups) {
        const Plan plan = everything_on_disk(group);
        ScheduleSet set;
        Simulation step;
        const double lower_ms = median_ms([&] { set = lower(model, recipe, numerics, plan, requests); });
        const double check_ms = median_ms([&] {
            ScheduleSet unchecked = lower(model, recipe, numerics, plan, requests);
            set = std::move(unchecked);
            check(set);
        });
        const double simulate_ms = median_ms([&] { step = simulate(set.schedules[0], machine); });
        const double estimate_ms = median_ms([&] {
            estimate(
                model, recipe, numerics, machine, [&](int) { return plan; }, requests);
        });
        size_t tasks = 0;
        for (const Schedule& schedule : set.schedules) tasks += schedule.tasks.size();
        fmt::print(
            "{:<12}groups of {:<4}{:>8} tasks  lower {:>8.1f} ms  lower + check {:>8.1f} ms  simulate {:>7.2f} ms "
            "({:>3.0f} ns a task)  estimate {:>7.2f} ms\n",
            name, group, tasks, lower_ms, check_ms, simulate_ms,
            simulate_ms * 1e6 / static_cast<double>(set.schedules[0].tasks.size()), estimate_ms);
    }
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    const std::string only = argc > 1 ? argv[1] : "";
    const std::vector<int> groups = argc > 2 ? std::vector<int>{std::stoi(argv[2])} : std::vector<int>{1, 16, 64};
    const Machine machine = find_machine(real_files(), "rtx4090-server-12gen4");
    if (only.empty() || only == "opt-175b") measure("opt-175b", kOpt175b, machine, groups);
    if (only.empty() || only == "llama-405b") measure("llama-405b", kLlama405b, machine, groups);
    return 0;
}
