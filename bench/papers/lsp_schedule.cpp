#include "papers/lsp_schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/index.h"
#include "model/families.h"
#include "papers/lsp_zero_offload.h"
#include "plan/estimate.h"
#include "plan/planner.h"
#include "plan/search.h"
#include "schedule/kernel_rate.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

constexpr int64_t kLayerTokens = 1024;
constexpr int kHostThreads = 32;
constexpr double kAtOnce = 1e18;  // operations a second of what the paper's costs do not part from a layer's

// The layers of LLaMA 7B. A vocabulary of 64: the paper's costs are those of layers.
TrainedModel layers_of_7b(int layers) {
    HfConfig config =
        HfConfig::parse(fmt::format(R"({{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
            "num_hidden_layers": {}, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 64,
            "max_position_embeddings": 4096, "tie_word_embeddings": false}})",
                                    layers),
                        "config.json");
    return TrainedModel(build_model(config, {}));
}

// AdamW as the paper runs it: without a norm of all gradients there is nothing to wait for, and no guess.
Recipe unclipped() {
    Recipe recipe = make_recipe("adamw", {});
    std::erase_if(recipe.acts, [](const Act& act) { return act.kernel == &kSumSquares; });
    recipe.decisions.clear();
    return recipe;
}

Numerics numerics_of_layers() {
    return {.compute = DType::bf16,
            .micro_batch_size = 1,
            .micro_batches = 1,
            .sequence_lengths = {kLayerTokens},
            .gradient_format = GradientFormat::bf16};
}

double layer_numbers(const TrainedModel& model) {
    double numbers = 0;
    for (const Param param : model.all_params()) {
        if (param.spec.block == 1) numbers += static_cast<double>(param.numel());
    }
    return numbers;
}

// The machine on which a layer has these costs. What is not there costs nothing.
Machine machine_of(const LayerCosts& costs, const TrainedModel& model, const Recipe& recipe) {
    const double numbers = layer_numbers(model), gradient = 2, weight = 2;
    Machine machine{.name = "costs of a layer",
                    .threads = kHostThreads,
                    .unified_memory = false,
                    .gemm_bf16_flops = kAtOnce,
                    .gemm_f32_flops = kAtOnce,
                    .attention_bf16_flops = kAtOnce,
                    .attention_f32_flops = kAtOnce};
    const OpSize size{.rows = 1, .sequence_length = kLayerTokens, .device = DeviceKind::fake, .compute = DType::bf16};
    const double products = 2 * numbers * kLayerTokens;  // of forward, and twice in backward
    for (const KernelCase& kernel : kernel_cases(model, recipe, std::span(&size, 1))) {
        if (kernel.op->work != OpWork::product || !kernel.key.starts_with("linear ")) continue;
        const bool backward = kernel.mode == DiffMode::vjp;
        machine.kernels[kernel.key] = backward ? 2 * products / costs.backward : products / costs.forward;
    }
    machine.link_up_bytes_per_s = weight * numbers / costs.up;
    machine.link_down_bytes_per_s = gradient * numbers / costs.down;
    machine.link_both_bytes_per_s = machine.link_up_bytes_per_s + machine.link_down_bytes_per_s;
    // The update's own bytes, and the gradient widened to f32 before it.
    machine.update_bytes_per_s = numbers * (recipe.update()->bytes_per_element + gradient + 4) / costs.host;
    return machine;
}

ScheduleRequest step_request() {
    return {ScheduleRequest::Kind::train, 1, kLayerTokens, 1};
}

Plan resident_weights(UpdateTime update, int deferred) {
    Plan plan{.policy = "host_stream",
              .device = {DeviceKind::fake, 0, true},
              .threads = kHostThreads,
              .host_threads = kHostThreads,
              .read_ahead = 3,
              .group_chunks = 16,
              .update_ahead = 4,
              .common = {.weights = Home::device, .state = Home::host, .gradients = Home::host, .update = update}};
    const int blocks = std::ssize(layers_of_7b(32).blocks);
    plan.blocks.assign(at(blocks), plan.common);
    for (int block = 0; block < blocks; ++block) {
        if (in_share(block, deferred)) plan.blocks[at(block)].update = UpdateTime::next_forward;
    }
    return plan;
}

double seconds_of(const LayerCosts& costs, const Plan& plan, bool waits) {
    const TrainedModel model = layers_of_7b(costs.layers);
    const Recipe recipe = unclipped();
    ScheduleSet set = lower(model, recipe, numerics_of_layers(), plan, {step_request()});
    if (waits) wait_for_all_updates(set);
    check(set);
    return simulate(set.schedules[0], machine_of(costs, model, recipe)).seconds;
}

}  // namespace

LayerWise::LayerWise(const LayerCosts& costs) : costs_(costs) {}

double LayerWise::behind_backward(bool waits) const {
    return seconds_of(costs_, resident_weights(UpdateTime::after_backward, 0), waits);
}

double LayerWise::on_arrival(int deferred) const {
    return seconds_of(costs_, resident_weights(UpdateTime::in_backward, deferred), false);
}

// A search of host_stream's space with nothing whole on the device, by the estimates that the planner compares by.
PlannedStep LayerWise::planned(bool visits) const {
    const TrainedModel model = layers_of_7b(costs_.layers);
    const Recipe recipe = unclipped();
    const Numerics numerics = numerics_of_layers();
    const Machine machine = machine_of(costs_, model, recipe);
    const PlanRequest request{.policy = "host_stream",
                              .recompute = false,
                              .device = {DeviceKind::fake, 0, true},
                              .threads = kHostThreads,
                              .schedules = {step_request()}};
    const SavedRanks ranks = rank_saved(model, step_request(), DeviceKind::fake, numerics, machine);
    const auto policy = std::ranges::find(all_policies(), std::string_view("host_stream"), &Policy::name);
    constexpr int kLayerChunks = 50;
    Space space = *(*policy)->space(request, {.saved_most = most_saved(ranks), .block_chunks = kLayerChunks});
    space.of(Knob::resident) = {0};
    space.of(Knob::block_input) = {static_cast<int>(Home::device)};
    if (!visits) space.of(Knob::device_groups) = {0};
    Estimator estimator(model, recipe, numerics, machine, request.schedules);
    const auto plan_for = [&](const Choice& choice, int blocks) {
        return plan_of(space, choice, ranks, programs_of(model, blocks));
    };
    const auto evaluation = [&](const Choice& choice) {
        const Estimate found = estimator([&](int blocks) { return plan_for(choice, blocks); }, period_of(choice));
        return Evaluation{.seconds = found.seconds,
                          .memory_bytes = found.arena_bytes[slot(TierKind::host)],
                          .device_bytes = found.arena_bytes[slot(TierKind::device)]};
    };
    Evaluator evaluate(
        ChoiceCosts{.whole = evaluation, .canonical = [&](const Choice& choice) { return space.canonical(choice); }});
    const Choice best = search(space, evaluate, {}).front();
    const Plan plan = plan_for(best, std::ssize(model.blocks));
    return {seconds_of(costs_, plan, false), describe_updates(plan)};
}

}  // namespace windlass
