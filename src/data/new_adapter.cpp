#include "data/new_adapter.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/module_pattern.h"
#include "data/module_names.h"
#include "model/adapters/adapter.h"
#include "op/sparse_positions.h"

namespace windlass {
namespace {

constexpr const char* kWidth = "lsp_d";
constexpr int64_t kWidthStep = 16;     // of widths that follow from bytes: whole tiles of matrix units
constexpr int64_t kStateBytes = 12;    // besides the numbers that are computed with: master, and both moments, in f32
constexpr int64_t kGradientBytes = 4;  // f32

std::vector<LinearLayer> layers_of(const ModelSpec& model, std::span<const int> weights) {
    std::vector<LinearLayer> layers;
    for (const int weight : weights) layers.push_back(linear_layer(model, weight));
    return layers;
}

// The numbers that one key gives to some modules.
class ByModule {
  public:
    ByModule(const char* key, const std::vector<std::string>& texts)
        : key_(key),
          patterns_(module_patterns_of(texts)),
          has_fit_(patterns_.size()),
          fits_(fits_module(ExitCode::usage, key)) {}

    // By the first pattern that fits, as in peft.
    std::optional<double> of(const std::string& module) {
        for (size_t i = 0; i < patterns_.size(); ++i) {
            if (!fits_(patterns_[i].pattern, /*is_whole=*/false, module)) continue;
            has_fit_[i] = true;
            return patterns_[i].number;
        }
        return std::nullopt;
    }
    // After the last module.
    void require_fits() const {
        const auto unused = std::ranges::find(has_fit_, false);
        if (unused == has_fit_.end()) return;
        throw UserError(ExitCode::usage, key_, "\"{}\" is the first pattern that fits for no layer with an adapter",
                        patterns_[at(unused - has_fit_.begin())].pattern)
            .hint("ends of names of layers that lora_target_modules names, such as q_proj=8");
    }

  private:
    const char* key_;
    std::vector<ModulePattern> patterns_;
    std::vector<bool> has_fit_;
    FitsModule fits_;
};

double pair_scale(const Config& config, double rank, double alpha) {
    return alpha / (config.use_rslora ? std::sqrt(rank) : rank);
}

// Layers whose rank or scale is another one than `settings` says.
void set_own_layers(const Config& config, const ModelSpec& model, std::span<const int> layers,
                    AdapterSettings& settings) {
    ByModule ranks("rank_pattern", config.rank_pattern), alphas("alpha_pattern", config.alpha_pattern);
    for (const int each : layers) {
        const std::string layer = layer_name(model, each), module = module_name(model, layer);
        const std::optional<double> rank = ranks.of(module), alpha = alphas.of(module);
        if (!rank && !alpha) continue;
        const double r = rank.value_or(static_cast<double>(config.lora_r));
        settings.layers[layer] = {.rank = static_cast<int64_t>(r),
                                  .scale = pair_scale(config, r, alpha.value_or(config.lora_alpha))};
    }
    ranks.require_fits();
    alphas.require_fits();
}

AdapterSettings new_pair(const Config& config, const ModelSpec& model, std::span<const int> weights) {
    AdapterSettings settings{.kind = "lora",
                             .rank = config.lora_r,
                             .scale = pair_scale(config, static_cast<double>(config.lora_r), config.lora_alpha),
                             .has_magnitudes = config.use_dora};
    set_own_layers(config, model, weights, settings);
    const auto is_above = [&](int weight) {
        const LinearLayer layer = linear_layer(model, weight);
        return settings.of_layer(layer_name(model, weight)).rank > std::min(layer.in_cols, layer.out_cols);
    };
    if (const auto count = std::ranges::count_if(weights, is_above); count > 0)
        log_info("note: the rank is above the smaller side of {}, which a lower one serves as well",
                 counted(count, "layer"));
    return settings;
}

// Numbers of S in all layers.
int64_t subspace_numbers(const std::vector<LinearLayer>& layers, int64_t width) {
    int64_t numbers = 0;
    for (const LinearLayer& layer : layers) numbers += std::min(width, layer.in_cols) * std::min(width, layer.out_cols);
    return numbers;
}

int64_t widest(const std::vector<LinearLayer>& layers) {
    int64_t most = 0;
    for (const LinearLayer& layer : layers) most = std::max({most, layer.in_cols, layer.out_cols});
    return most;
}

// The widest projectors whose S take at most `limit` together, at number_bytes a number.
int64_t width_within(const std::vector<LinearLayer>& layers, const char* key, const ByteLimit& limit,
                     int64_t number_bytes) {
    const int64_t bytes = parse_bytes(limit.text, key);
    const auto taken = [&](int64_t width) { return number_bytes * subspace_numbers(layers, width); };
    if (taken(kWidthStep) > bytes)
        throw UserError(ExitCode::usage, key, "{} allow no projector: the narrowest, of {} columns, take {}",
                        format_bytes(bytes), kWidthStep, format_bytes(taken(kWidthStep)))
            .hint(fmt::format("{} or more, fewer layers (lora_target_modules), or lsp_d, which may be narrower",
                              size_to_type(taken(kWidthStep))));
    int64_t width = kWidthStep;
    while (width < widest(layers) && taken(width + kWidthStep) <= bytes) width += kWidthStep;
    return std::min(width, widest(layers));
}

// The width that the user asks for; else the widest that both limits allow; else half of the model's width, as the
// paper advises: the host's AdamW step is then hidden by the device's work.
int64_t projector_width(const Config& config, const ModelSpec& model, const std::vector<LinearLayer>& layers) {
    if (config.lsp_d) return *config.lsp_d;
    std::optional<int64_t> width;
    const auto limit = [&](const char* key, const ByteLimit& bytes, int64_t number_bytes) {
        if (bytes.text.empty()) return;
        const int64_t within = width_within(layers, key, bytes, number_bytes);
        width = std::min(width.value_or(within), within);
    };
    limit("lsp_host_bytes", config.lsp_host_bytes, kStateBytes);
    limit("lsp_link_bytes", config.lsp_link_bytes,
          kGradientBytes + dtype_bytes(compute_type_of(config).value_or(DType::bf16)));
    return width.value_or(std::max<int64_t>(1, model.hidden / 2));
}

AdapterSettings new_projectors(const Config& config, const ModelSpec& model, std::span<const int> weights) {
    const std::vector<LinearLayer> layers = layers_of(model, weights);
    const int64_t width = projector_width(config, model, layers), most = widest(layers);
    if (width > most)
        throw UserError(ExitCode::usage, kWidth, "{} is above both sides of every layer", width)
            .hint(fmt::format("{} {} or less; half of the model's width is {}", kWidth, most, model.hidden / 2));
    if (config.lsp_r > width)
        throw UserError(ExitCode::usage, "lsp_r", "{} numbers a row do not fit {} columns", config.lsp_r, width)
            .hint(fmt::format("lsp_r {} or less, or a larger {}", width, kWidth));
    if (most > kSparseRowsMax)
        throw UserError(ExitCode::usage, "adapter", "a layer has a side of {}, projectors at most {}", most,
                        kSparseRowsMax)
            .hint("fewer layers (lora_target_modules)");
    // Positions of seed 0 are no random ones.
    return {.kind = config.adapter,
            .rank = width,
            .nonzeros = config.lsp_r,
            .seed = static_cast<uint64_t>(config.seed) + 1};
}

}  // namespace

AdapterSettings new_adapter(const Config& config, const ModelSpec& model, std::span<const int> weights) {
    if (config.adapter == "lora") return new_pair(config, model, weights);
    if (config.adapter == "lsp") return new_projectors(config, model, weights);
    return {.kind = config.adapter};
}

}  // namespace windlass
