// schedule_fixture.h: models by their configuration alone, and every way to place and order a step of theirs.
#pragma once

#include <string>
#include <vector>

#include "format/hf_config.h"
#include "model/families.h"
#include "schedule/check.h"
#include "schedule/lower.h"

namespace windlass {

inline constexpr const char* kMethodNames[] = {"adamw", "zeroth_order", "lomo", "lsp"};

// Shapes as published; no memory is ever allocated for them.
inline constexpr const char* kOpt175b = R"({"model_type": "opt", "hidden_size": 12288, "ffn_dim": 49152,
    "num_hidden_layers": 96, "num_attention_heads": 96, "max_position_embeddings": 2048, "vocab_size": 50272,
    "word_embed_proj_dim": 12288, "do_layer_norm_before": true, "activation_function": "relu"})";
inline constexpr const char* kLlama405b = R"({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
    "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": false})";

inline ModelSpec model_of(const std::string& config_text) {
    HfConfig config = HfConfig::parse(config_text, "config.json");
    return build_model(config, {});
}

inline ModelSpec tiny_model(const std::string& name) {
    const std::string path = fmt::format("{}/tests/golden/{}/model/config.json", WINDLASS_SOURCE_DIR, name);
    return model_of(read_text(real_files(), path, 1 << 20));
}

// A model as a method keeps it.
inline ModelSpec stored_as(ModelSpec model, const Recipe& recipe) {
    for (ParamSpec& param : model.params) param.store = recipe.store;
    return model;
}

inline Numerics numerics_of(DType compute, int64_t rows, int64_t row_length, int micro_count) {
    return {.compute = compute, .micro_rows = rows, .micro_count = micro_count, .row_lengths = {row_length}};
}

inline ScheduleRequest train_request(const Numerics& numerics) {
    return {ScheduleRequest::Kind::train, numerics.micro_rows, numerics.row_lengths[0],
            static_cast<int>(numerics.micro_count)};
}

// Every place for weights, state and gradients that a policy uses, with everything else that a plan may say.
inline std::vector<Plan> plans_on(DeviceKind device, int read_ahead_max = 2) {
    std::vector<Plan> plans;
    for (const bool recompute : {false, true}) {
        for (const MicroOrder order : {MicroOrder::horizontal, MicroOrder::vertical})
            plans.push_back({.policy = "memory", .device = {device}, .order = order, .recompute = recompute});
        for (const Home weights : {Home::memory, Home::disk}) {
            for (const Home gradients : {Home::memory, Home::disk}) {
                for (int read_ahead = 0; read_ahead <= read_ahead_max; ++read_ahead) {
                    plans.push_back({.policy = "disk",
                                     .device = {device},
                                     .weights = weights,
                                     .state = Home::disk,
                                     .gradients = gradients,
                                     .recompute = recompute,
                                     .read_ahead = read_ahead});
                }
            }
        }
    }
    return plans;
}

inline std::string describe(const Plan& plan) {
    return fmt::format("weights {}, state {}, gradients {}, {}, recompute {}, read ahead {}", home_name(plan.weights),
                       home_name(plan.state), home_name(plan.gradients),
                       plan.order == MicroOrder::vertical ? "vertical" : "horizontal", plan.recompute, plan.read_ahead);
}

inline ScheduleSet checked(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan) {
    ScheduleSet set = lower(model, recipe, numerics, plan, {train_request(numerics)});
    check(set);
    return set;
}

}  // namespace windlass
