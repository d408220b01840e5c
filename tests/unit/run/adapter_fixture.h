// adapter_fixture.h: ways to train an adapter beside tiny real models, by any method and over a base of any kind.
#pragma once

#include "method/param_groups.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {

inline const AdapterSettings kLora4{.kind = "lora", .rank = 4, .scale = 2},
    kDora4{.kind = "lora", .rank = 4, .scale = 2, .has_magnitudes = true}, kIa3Scales{.kind = "ia3"},
    kLsp24{.kind = "lsp", .rank = 24, .nonzeros = 4, .seed = 7};

struct AdapterBase {
    const char* name;
    DType files, compute;
    bool in_4_bits = false;
};
inline constexpr AdapterBase kInF32{"f32", DType::f32, DType::f32};
inline constexpr AdapterBase kInBf16{"bf16", DType::bf16, DType::bf16};
inline constexpr AdapterBase kNf4InF32{"nf4_in_f32", DType::f32, DType::f32, true};
inline constexpr AdapterBase kNf4InBf16{"nf4_in_bf16", DType::bf16, DType::bf16, true};

// A way to train an adapter; what everything in memory gives is what each plan is compared with.
struct AdapterWay {
    const char* name;
    const char* model;
    AdapterBase base;
    AdapterSettings adapter = kLora4;
    double norm_limit = 0;  // between the norms of a run's steps
    MethodOptions options = {};
    std::vector<ParamGroup> groups = {};
    const char* method = "adamw";
    bool refreshes = false;
    bool has_tables = false;  // adapts the table of tokens and the head, too
    bool goes_forward_only() const { return std::string_view(method) != "adamw"; }
    std::string text() const {
        return fmt::format("{}_{}_{}{}{}", name, model, base.name, goes_forward_only() ? "_" : "",
                           goes_forward_only() ? method : "");
    }
};
struct AdapterRun {
    AdapterRun(const AdapterWay& way, int micro_batches, DeviceId device = {})
        : golden(way.model), batches(batches_of(golden)) {
        golden.folder = write_model(golden, way.base.files, folder);
        const bool probes = way.goes_forward_only();
        if (probes) options = forward_only_options(way.method);
        options.plan.device = device;
        options.method = way.options;
        options.method.weight_decay = 0.1;
        if (!probes) options.method.max_grad_norm = way.norm_limit;
        options.compute = way.base.compute;
        options.micro_batches = micro_batches;
        options.micro_batch_size = 2 / micro_batches;
        options.adapter = way.adapter;
        options.adapts_tables = way.has_tables;
        options.groups = way.groups;
        options.in_4_bits = way.base.in_4_bits;
        options.refreshes = way.refreshes;
        outcome = run_steps(golden, batches, options);
        if (!probes) expect_some_clipped(outcome);
        EXPECT_NE(outcome.losses[0], outcome.losses[2]) << "nothing was learnt";
        if (way.refreshes) expect_both_refreshes();
    }
    Outcome under(const Plan& plan, size_t seed, Device* device = nullptr) const {
        EngineOptions placed = options;
        placed.plan = plan;
        placed.device = device;
        // Lanes overtake each other in ways that a quiet machine never shows.
        placed.emulation = {.jitter_seed = seed, .jitter_ns = seed % 3 == 0 ? 100'000 : 0};
        return run_steps(golden, batches, placed);
    }
    void expect_both_refreshes() const {
        EXPECT_GT(outcome.refreshed, std::ssize(outcome.fits) / 4) << "one of two refreshes at most";
    }
    TempFolder folder;
    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
    Outcome outcome;
};

// All plans, by what the adapter's model trains.
inline std::vector<Plan> adapter_plans(const AdapterWay& way) {
    TrainedModel model(adapted(tiny_model(way.model), way.adapter, way.has_tables));
    if (!way.groups.empty()) apply_param_groups(way.groups, "groups", model);
    return way.goes_forward_only() ? forward_only_plans(DeviceKind::cpu, model.blocks.size())
                                   : with_mixed(all_plans(), model);
}

// Of the table of tokens and the head, too; gpt2's is tied.
inline std::vector<AdapterWay> ways_of_tables() {
    std::vector<AdapterWay> ways;
    for (const auto& [model, base, limit] :
         {std::tuple{"llama", kInF32, 7.5}, {"llama", kNf4InBf16, 7.5}, {"gpt2", kInBf16, 4.5}})
        ways.push_back({.name = "tables", .model = model, .base = base, .norm_limit = limit, .has_tables = true});
    for (const char* const method : {"zeroth_order", "forward_gradient"})
        ways.push_back({.name = "tables",
                        .model = "llama",
                        .base = kInBf16,
                        .options = {.directions = 2},
                        .method = method,
                        .has_tables = true});
    return ways;
}

// Of LoRA and DoRA, in every type.
inline std::vector<AdapterWay> forward_only_adapter_ways(const char* model) {
    std::vector<AdapterWay> ways;
    for (const char* const method : {"zeroth_order", "forward_gradient"})
        for (const AdapterBase& base : {kInF32, kInBf16, kNf4InBf16})
            for (const AdapterSettings& adapter : {kLora4, kDora4})
                ways.push_back({.name = adapter.has_magnitudes ? "dora" : "lora",
                                .model = model,
                                .base = base,
                                .adapter = adapter,
                                .options = {.directions = 2},
                                .method = method});
    return ways;
}

// The ways of training an adapter. Over all of them each plan is met.
inline std::vector<AdapterWay> adapter_ways() {
    std::vector<AdapterWay> ways;
    for (const auto& [model, limit] : {std::pair{"llama", 1.35}, {"gpt2", 1.0}}) {
        for (const AdapterBase& base : {kInF32, kInBf16, kNf4InF32, kNf4InBf16}) {
            for (const auto& [name, format] : {std::pair{"fp32", StateFormat::fp32},
                                               {"bf16_state", StateFormat::bf16},
                                               {"int8_state", StateFormat::int8}})
                ways.push_back({.name = name,
                                .model = model,
                                .base = base,
                                .norm_limit = limit,
                                .options = {.state_format = format}});
        }
        for (const AdapterBase& base : {kInF32, kNf4InBf16}) {
            ways.push_back({.name = "ia3", .model = model, .base = base, .adapter = kIa3Scales, .norm_limit = 0.65});
            ways.push_back({.name = "dora", .model = model, .base = base, .adapter = kDora4, .norm_limit = limit});
            ways.push_back({.name = "lsp",
                            .model = model,
                            .base = base,
                            .adapter = kLsp24,
                            .norm_limit = model == std::string_view("llama") ? 2.9 : 2.6});
            ways.push_back({.name = "lora_fa",
                            .model = model,
                            .base = base,
                            .norm_limit = limit,
                            .groups = {{.match = "*lora_A*", .train = false}}});
        }
        for (const auto& [name, format, base] : {std::tuple{"lsp_refreshed", StateFormat::fp32, kInF32},
                                                 {"lsp_refreshed_bf16_state", StateFormat::bf16, kInBf16},
                                                 {"lsp_refreshed_int8_state", StateFormat::int8, kInBf16}})
            ways.push_back({.name = name,
                            .model = model,
                            .base = base,
                            .adapter = kLsp24,
                            .norm_limit = model == std::string_view("llama") ? 1.75 : 1.5,
                            .options = {.state_format = format},
                            .refreshes = true});
        ways.push_back({.name = "lsp_int8_state",
                        .model = model,
                        .base = kInBf16,
                        .adapter = kLsp24,
                        .norm_limit = model == std::string_view("llama") ? 2.9 : 2.6,
                        .options = {.state_format = StateFormat::int8}});
        ways.push_back({.name = "lsp_zeroth_order",
                        .model = model,
                        .base = kInBf16,
                        .adapter = kLsp24,
                        .options = {.directions = 2},
                        .method = "zeroth_order"});
        std::ranges::copy(forward_only_adapter_ways(model), std::back_inserter(ways));
    }
    for (AdapterWay& way : ways_of_tables()) ways.push_back(std::move(way));
    return ways;
}

}  // namespace windlass
