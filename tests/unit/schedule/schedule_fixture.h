// schedule_fixture.h: models by their configuration alone, and every way to place and order a step of theirs.
#pragma once

#include <string>
#include <vector>

#include "format/hf_config.h"
#include "model/families.h"
#include "schedule/check.h"
#include "schedule/lower.h"
#include "tests/place.h"
#include "tests/unit/schedule/updates_once.h"

namespace windlass {

// Of a schedule made by hand.
inline int lane_number(LaneKind kind) {
    return find_lane(Schedule().lanes, kind);
}

inline constexpr int64_t kPlenty = int64_t{1} << 40;  // bytes

inline std::vector<const char*> method_names() {
    std::vector<const char*> names;
    for (const Method* method : all_methods()) names.push_back(method->name.data());
    return names;
}

// Shapes as published; no memory is ever allocated for them.
inline constexpr const char* kOpt175b = R"({"model_type": "opt", "hidden_size": 12288, "ffn_dim": 49152,
    "num_hidden_layers": 96, "num_attention_heads": 96, "max_position_embeddings": 2048, "vocab_size": 50272,
    "word_embed_proj_dim": 12288, "do_layer_norm_before": true, "activation_function": "relu"})";
inline constexpr const char* kLlama405b = R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
    "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false})";

inline TrainedModel model_of(const std::string& config_text) {
    HfConfig config = HfConfig::parse(config_text, "config.json");
    return TrainedModel(build_model(config, {}));
}

inline TrainedModel tiny_model(const std::string& name) {
    const std::string path = fmt::format("{}/tests/golden/{}/model/config.json", source_dir(), name);
    return model_of(read_text(real_files(), path, 1 << 20));
}

// A model as a method keeps it.
inline TrainedModel stored_as(TrainedModel model, const Recipe& recipe) {
    set_store(model, recipe.store);
    return model;
}

inline Numerics numerics_of(DType compute, int64_t rows, int64_t sequence_length, int micro_batches) {
    return {.compute = compute,
            .micro_batch_size = rows,
            .micro_batches = micro_batches,
            .sequence_lengths = {sequence_length}};
}

inline ScheduleRequest train_request(const Numerics& numerics) {
    return {ScheduleRequest::Kind::train, numerics.micro_batch_size, numerics.sequence_lengths[0],
            static_cast<int>(numerics.micro_batches)};
}

// Plans on a device that shares the host's memory: everything in memory, or with a store on disk.
inline std::vector<Plan> shared_memory_plans(DeviceKind device, int read_ahead_max) {
    std::vector<Plan> plans;
    for (const bool recompute : {false, true}) {
        for (const MicroOrder order : {MicroOrder::micro_batch_first, MicroOrder::layer_first}) {
            for (const UpdateTime update :
                 {UpdateTime::after_backward, UpdateTime::in_backward, UpdateTime::next_forward}) {
                plans.push_back({.policy = "memory",
                                 .device = {device},
                                 .order = order,
                                 .common = {.update = update, .recompute = recompute}});
            }
        }
        for (int index = 0; index < 12 * (read_ahead_max + 1); ++index) {
            const int read_ahead = index / 12;
            plans.push_back({.policy = "disk",
                             .device = {device},
                             .host_threads = read_ahead % 2,
                             .store = true,
                             .read_ahead = read_ahead,
                             .update_ahead = read_ahead,
                             .common = {.weights = index % 2 == 0 ? Home::device : Home::disk,
                                        .state = read_ahead == 1 && index % 2 == 0 ? Home::device : Home::disk,
                                        .gradients = index / 2 % 2 == 0 ? Home::device : Home::disk,
                                        .block_input = recompute ? Home::disk : Home::device,
                                        .update = static_cast<UpdateTime>(index / 4 % 3),
                                        .recompute = recompute}});
        }
    }
    return plans;
}

// Plans on a device with its own memory: what leaves it goes to the host, and from there to the disk.
inline std::vector<Plan> own_memory_plans(DeviceKind device) {
    std::vector<Plan> plans;
    for (int index = 0; index < 24; ++index) {
        const bool store = index % 2 == 1;
        plans.push_back({.policy = store ? "three_tier" : "host_stream",
                         .device = {.kind = device, .own_memory = true},
                         .host_threads = 1,
                         .store = store,
                         .read_ahead = index / 8,
                         .update_ahead = index / 8,
                         .common = {.weights = store && index / 2 % 2 == 1 ? Home::disk : Home::host,
                                    .state = store && index / 4 % 2 == 1 ? Home::disk : Home::host,
                                    .gradients = store && index / 2 % 2 == 1 ? Home::disk : Home::host,
                                    .block_input = store ? Home::disk : Home::host,
                                    .update = static_cast<UpdateTime>(index / 2 % 3),
                                    .recompute = index / 4 % 2 == 1}});
    }
    for (int index = 0; index < 24; index += 3) {  // weights that stay on the device, and are updated by the host
        plans.push_back(plans[static_cast<size_t>(index)]);
        plans.back().common.weights = Home::device;
        if (!plans.back().store) plans.back().device_groups = index / 6 % 3;
    }
    return plans;
}

// Every place for weights, state and gradients that a policy uses, with everything else that a plan may say.
inline std::vector<Plan> plans_on(DeviceKind device, int read_ahead_max = 2) {
    std::vector<Plan> plans = shared_memory_plans(device, read_ahead_max);
    // Reads early enough to pass over the turn from forward to backward, and updates that forward does.
    for (const bool own_memory : {false, true}) {
        plans.push_back({.policy = "disk",
                         .device = {.kind = device, .own_memory = own_memory},
                         .host_threads = own_memory ? 1 : 0,
                         .store = true,
                         .read_ahead = 3,
                         .common = {.weights = Home::disk,
                                    .state = Home::disk,
                                    .gradients = own_memory ? Home::host : Home::device,
                                    .update = UpdateTime::next_forward}});
    }
    const std::vector<Plan> apart = own_memory_plans(device);
    plans.insert(plans.end(), apart.begin(), apart.end());
    return plans;
}

// The same plan where a block's gradient is used up behind its backward.
inline Plan at_once(Plan plan) {
    const auto set = [&](BlockPlan& block) {
        block.update = UpdateTime::at_once;
        if (block.gradients == Home::disk) block.gradients = plan.own_memory() ? Home::host : Home::device;
    };
    set(plan.common);
    for (BlockPlan& block : plan.blocks) set(block);
    plan.order = MicroOrder::layer_first;
    return plan;
}

// When a method updates that neither guesses nor waits longer than it must.
inline UpdateTime usual_update(const Recipe& recipe) {
    if (recipe.probes()) return UpdateTime::next_forward;
    return recipe.uses_gradients_at_once() ? UpdateTime::at_once : UpdateTime::after_backward;
}

// Every home of the weights, each block's the same or each another, read ever earlier.
inline std::vector<Plan> forward_only_plans(DeviceKind device, size_t blocks, int read_ahead_max = 3) {
    std::vector<Plan> plans;
    const auto add = [&](bool own_memory, bool store, std::vector<Home> homes) {
        for (int ahead = 0; ahead <= read_ahead_max; ++ahead) {
            Plan plan{.policy = store        ? "three_tier"
                                : own_memory ? "host_stream"
                                             : "in_memory",
                      .device = {.kind = device, .own_memory = own_memory},
                      .store = store,
                      .read_ahead = ahead,
                      .common = {.weights = homes[0], .state = homes[0], .update = UpdateTime::next_forward}};
            for (size_t block = 0; block < blocks && homes.size() > 1; ++block) {
                plan.blocks.push_back(plan.common);
                plan.blocks.back().weights = plan.blocks.back().state = homes[block % homes.size()];
            }
            plans.push_back(plan);
        }
    };
    add(false, false, {Home::device});
    add(false, true, {Home::device});
    add(false, true, {Home::disk});
    add(false, true, {Home::device, Home::disk});
    add(false, true, {Home::disk, Home::device});
    add(true, false, {Home::device});
    add(true, false, {Home::host});
    add(true, false, {Home::host, Home::device});
    add(true, false, {Home::device, Home::host});
    add(true, true, {Home::host});
    add(true, true, {Home::disk});
    add(true, true, {Home::host, Home::disk});
    add(true, true, {Home::disk, Home::disk, Home::host});
    return plans;
}

// The plans that a method may have.
inline std::vector<Plan> plans_for(const Recipe& recipe, const TrainedModel& model, DeviceKind device,
                                   int read_ahead_max = 2) {
    if (recipe.probes()) return forward_only_plans(device, model.blocks.size(), read_ahead_max);
    std::vector<Plan> plans = plans_on(device, read_ahead_max);
    for (Plan& plan : plans) plan = recipe.uses_gradients_at_once() ? at_once(plan) : plan;
    return plans;
}

inline std::string describe(const Plan& plan) {
    return fmt::format("{}: {}, block inputs {}, {}, update {}, recompute {}, read ahead {}, host threads {}",
                       plan.policy, describe_placement(plan), home_name(plan.common.block_input),
                       plan.order == MicroOrder::layer_first ? "layer first" : "micro-batch first",
                       update_time_name(plan.common.update), plan.common.recompute, plan.read_ahead, plan.host_threads);
}

inline ScheduleSet checked(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                           const Plan& plan) {
    ScheduleSet set = lower(model, recipe, numerics, plan, {train_request(numerics)});
    check(set);
    expect_updates_once(model, set);
    return set;
}

}  // namespace windlass
