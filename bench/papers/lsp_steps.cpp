// Steps of the paper's models: ZeRO-Offload as published, and our plans of AdamW and of LSP.
#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "model/adapters/adapter.h"
#include "model/families.h"
#include "papers/lsp_report.h"
#include "papers/lsp_zero_offload.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr int64_t kContextBytes = 500'000'000;  // what the runtime of a GPU takes of its memory
constexpr int64_t kHostBytes = int64_t{1} << 50;
constexpr int64_t kStepTokens[] = {512, 1024, 2048, 4096};

// A laptop of the paper: A1000 with 4 GB and a Core i7 12800H. Nothing of it was measured: 0.7 of the rated 17 TFLOP/s
// with f32 sums, 0.9 of 224 GB/s, PCIe 4.0 x8, two channels of DDR5.
Machine laptop() {
    return completed({.name = "laptop",
                      .threads = 14,
                      .unified_memory = false,
                      .device_memory_bytes = 4'000'000'000,
                      .gemm_bf16_flops = 12e12,
                      .gemm_f32_flops = 6e12,
                      .memory_bytes_per_s = 60e9,
                      .device_memory_bytes_per_s = 200e9,
                      .link_up_bytes_per_s = 12e9,
                      .link_down_bytes_per_s = 12e9,
                      .link_both_bytes_per_s = 20e9,
                      .update_bytes_per_s = 60e9});
}

// Its workstation: our profile of the card, with the link and the host of the paper's Table 1: 405 MB of a layer's
// gradients in 29 ms, and 28 bytes of each of its 202 million numbers in 60 ms.
Machine workstation() {
    Machine made = find_machine(real_files(), "rtx4090-workstation-4gen5");
    made.link_up_bytes_per_s = made.link_down_bytes_per_s = 14e9;
    made.link_both_bytes_per_s = 28e9;
    made.update_bytes_per_s = made.memory_bytes_per_s = 95e9;
    return completed(made);
}

struct PaperModel {
    std::string_view name, config;
    bool on_laptop;
    int64_t card_bytes, d, r;
    double published_zero, published_lsp;  // seconds of its own iteration, whose tokens it does not say
};
constexpr PaperModel kModels[] = {
    {"GPT2-774M",
     R"({"model_type": "gpt2", "n_embd": 1280, "n_layer": 36, "n_head": 20, "n_positions": 4096, "vocab_size": 50257})",
     true, 4'000'000'000, 640, 8, 3.14, 1.54},
    {"DS-Coder-1.3B", R"({"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5504,
        "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 32256,
        "max_position_embeddings": 16384, "tie_word_embeddings": false})",
     true, 4'000'000'000, 1280, 4, 512, 273},
    {"Llama-3B", R"({"model_type": "llama", "hidden_size": 3200, "intermediate_size": 8640,
        "num_hidden_layers": 26, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
        "max_position_embeddings": 4096, "tie_word_embeddings": false})",
     false, 24'000'000'000, 1600, 8, 3.63, 1.94},
    {"DS-Coder-6.7B", R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32256,
        "max_position_embeddings": 16384, "tie_word_embeddings": false})",
     false, 24'000'000'000, 2048, 8, 4.11, 1.97},
};

TrainedModel full_model(const PaperModel& each) {
    HfConfig config = HfConfig::parse(std::string(each.config), "config.json");
    return TrainedModel(build_model(config, {}));
}

TrainedModel lsp_model(const PaperModel& each) {
    HfConfig config = HfConfig::parse(std::string(each.config), "config.json");
    ModelSpec spec = build_model(config, {});
    for (ParamSpec& param : spec.params) param.file_dtype = DType::bf16;
    const std::vector<int> layers = linear_layers_of_layers(spec);
    TrainedModel model(
        with_adapter(std::move(spec), {.kind = "lsp", .rank = each.d, .nonzeros = each.r, .seed = 1}, layers));
    set_store(model, StoreType::split);
    keep_frozen_as(model, DType::bf16);
    return model;
}

Numerics numerics_of_step(int64_t tokens) {
    return {.compute = DType::bf16,
            .micro_batch_size = 1,
            .micro_batches = 1,
            .sequence_lengths = {tokens},
            .gradient_format = GradientFormat::bf16};
}

std::optional<Planned> planned_step(const PaperModel& each, const TrainedModel& model, int64_t tokens) {
    const Machine machine = each.on_laptop ? laptop() : workstation();
    const PlanRequest request{.device = {DeviceKind::fake, 0, true},
                              .threads = machine.threads,
                              .budgets = {.ram = kHostBytes, .device = each.card_bytes - kContextBytes},
                              .schedules = {{ScheduleRequest::Kind::train, 1, tokens, 1}}};
    PlanOutcome found = find_plan(model, make_recipe("adamw", {}), numerics_of_step(tokens), machine, request);
    if (std::holds_alternative<NoFit>(found)) return std::nullopt;
    return std::get<Planned>(std::move(found));
}

std::string gb_of(const std::optional<Planned>& planned) {
    return planned ? fmt::format("{:.1f}", 1e-9 * static_cast<double>(planned->device_bytes + kContextBytes)) : "-";
}
std::string seconds_of(const std::optional<Planned>& planned) {
    return planned ? fmt::format("{:.2f}", planned->mean_seconds) : "-";
}

void print_row(const PaperModel& each, int64_t tokens) {
    const Machine machine = each.on_laptop ? laptop() : workstation();
    const TrainedModel model = full_model(each);
    const ZeroOffloadStep zero = zero_offload_step(model, numerics_of_step(tokens), machine);
    const bool zero_fits = zero.device_bytes <= each.card_bytes - kContextBytes;
    const std::optional<Planned> adamw = planned_step(each, model, tokens),
                                 lsp = planned_step(each, lsp_model(each), tokens);
    const std::string less = lsp ? fmt::format("{:.0f} %", 100 * (1 - lsp->mean_seconds / zero.seconds)) : "-";
    fmt::print("{:>8}{:>9.2f}{:>9}{:>9}{:>9}{:>9.1f}{}{:>8}{:>8}\n", tokens, zero.seconds, seconds_of(adamw),
               seconds_of(lsp), less, 1e-9 * static_cast<double>(zero.device_bytes + kContextBytes),
               zero_fits ? " " : "*", gb_of(adamw), gb_of(lsp));
}

}  // namespace

bool print_published_steps() {
    for (const PaperModel& each : kModels) {
        fmt::print("{}, {} GB, d {}, r {}; published: ZeRO-Offload {:g} s, LSP {:g} s, {:.0f} % less\n", each.name,
                   each.card_bytes / 1'000'000'000, each.d, each.r, each.published_zero, each.published_lsp,
                   100 * (1 - each.published_lsp / each.published_zero));
        fmt::print("{:>8}{:>9}{:>9}{:>9}{:>9}{:>10}{:>8}{:>8}\n", "", "ZeRO", "AdamW", "LSP", "", "ZeRO", "AdamW",
                   "LSP");
        fmt::print("{:>8}{:>9}{:>9}{:>9}{:>9}{:>10}{:>8}{:>8}\n", "tokens", "s", "s", "s", "less", "GB", "GB", "GB");
        for (const int64_t tokens : kStepTokens) print_row(each, tokens);
        fmt::print("\n");
    }
    return true;
}

}  // namespace windlass
