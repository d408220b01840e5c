// lora.cpp: LoRA: out + s (in A^T) B^T (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022,
// arXiv 2106.09685, section 4.1), s = alpha / r, or alpha / sqrt(r) (Kalajdzievski, arXiv 2312.03732).
//
// DoRA: each output's numbers of W + s B A get a trained norm, which begins as that of W (Liu et al., "DoRA:
// Weight-Decomposed Low-Rank Adaptation", ICML 2024, arXiv 2402.09353, equation 5); biases are added after that.
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/kinds.h"
#include "op/ops.h"

namespace windlass {
namespace lora_adapter {

constexpr AdapterKind::ByModule kByModule[] = {{"rank_pattern", "r"}, {"alpha_pattern", "lora_alpha"}};
constexpr double kScaleMax = 1e6;  // of files of others: far above all that is in use, and f32 holds its products

// A is drawn as torch.nn.Linear's weights are, uniform within 1 / sqrt(in); B begins at zero, and so does what they
// add.
std::vector<AdapterPart> pair_parts(const LinearLayer& layer, const AdapterSettings& settings) {
    const Shape a{settings.rank, layer.in_cols}, b{layer.out_cols, settings.rank};
    std::vector<AdapterPart> parts = {{.name = "lora_A.weight",
                                       .shape = a,
                                       .peft_shape = a,
                                       .first = {.bound = 1.0 / std::sqrt(static_cast<double>(layer.in_cols))}},
                                      {.name = "lora_B.weight", .shape = b, .peft_shape = b}};
    const Shape m{layer.out_cols};
    if (settings.has_magnitudes)
        parts.push_back(
            {.name = "lora_magnitude_vector", .shape = m, .peft_shape = m, .first = {FirstValues::row_norms}});
    return parts;
}

std::optional<size_t> magnitudes(const AdapterSettings& settings) {
    return settings.has_magnitudes ? std::optional<size_t>(2) : std::nullopt;
}

// Of a table, A^T [V, r] is one too, looked up by the same ids. It begins at zero as peft's does, and B at random:
// uniform, with the variance of peft's normal numbers, 1.
std::vector<AdapterPart> table_parts(const LinearLayer& layer, const AdapterSettings& settings) {
    const Shape b{layer.out_cols, settings.rank};
    return {{.name = "lora_embedding_A",
             .shape = {layer.in_cols, settings.rank},
             .peft_shape = {settings.rank, layer.in_cols},
             .is_turned = true},
            {.name = "lora_embedding_B", .shape = b, .peft_shape = b, .first = {.bound = std::sqrt(3.0)}}};
}

std::vector<AdapterPart> parts(const LinearLayer& layer, const AdapterSettings& settings) {
    return layer.is_table ? table_parts(layer, settings) : pair_parts(layer, settings);
}

std::string value_name(const AdapterPlace& place, const char* part) {
    return fmt::format("{}.{}", place.layer.role, part);
}

// The scale is applied where the values are narrowest.
int write_narrow(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) {
    const int u =
        place.layer.is_table
            ? program.apply(kEmbedding, value_name(place, "lora_A"), {}, {place.parts[0]}, EmbeddingAttrs{})
            : program.apply(kLinear, value_name(place, "lora_A"), {place.in}, {place.parts[0]}, LinearAttrs{});
    if (settings.scale == 1.0) return u;
    return program.apply(kScale, value_name(place, "lora_scale"), {u}, {}, ScaleAttrs{settings.scale});
}

int write(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) {
    const int u = write_narrow(program, place, settings);
    const int v = program.apply(kLinear, value_name(place, "lora_B"), {u}, {place.parts[1]}, LinearAttrs{});
    const int sum = program.apply(kAdd, value_name(place, "lora"), {place.out, v});
    if (!settings.has_magnitudes) return sum;
    std::vector<int> weights = {place.parts[2], place.weight, place.parts[0], place.parts[1]};
    if (place.bias) weights.push_back(*place.bias);
    return program.apply(kMagnitude, value_name(place, "dora"), {sum}, std::move(weights),
                         MagnitudeAttrs{.in_out = place.layer.in_out, .scale = settings.scale});
}

// W + s B A, or of a W that is stored [in, out] its transpose, for which a table has A's; a row of it at a time.
void fuse(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts,
          const FuseRun& run) {
    if (run.is_bias) return;
    const std::vector<float>&a = parts[0], &b = parts[1];
    const int64_t cols = layer.in_out ? layer.out_cols : layer.in_cols, rank = settings.rank;
    std::vector<double> sum;
    for (int64_t done = 0; done < std::ssize(run.numbers);) {
        const int64_t element = run.first + done, row = element / cols, begin = element % cols;
        const int64_t count = std::min(cols - begin, std::ssize(run.numbers) - done);
        sum.assign(static_cast<size_t>(count), 0.0);
        for (int64_t k = 0; k < rank; ++k) {
            // [out, in]: B[row, k] A[k, col]; [in, out]: A[k, row] B[col, k].
            const std::vector<float>& left_part = layer.in_out ? a : b;
            const bool is_turned = layer.in_out && !layer.is_table;
            const double left = left_part[static_cast<size_t>(is_turned ? k * layer.in_cols + row : row * rank + k)];
            const float* const right = layer.in_out ? b.data() + begin * rank + k : a.data() + k * cols + begin;
            const int64_t stride = layer.in_out ? rank : 1;
            for (int64_t i = 0; i < count; ++i) sum[static_cast<size_t>(i)] += left * right[i * stride];
        }
        for (int64_t i = 0; i < count; ++i) {
            float& number = run.numbers[static_cast<size_t>(done + i)];
            number = static_cast<float>(number + settings.scale * sum[static_cast<size_t>(i)]);
        }
        done += count;
    }
}

// As plain LoRA, whatever the scale: llama.cpp knows alpha / r alone.
void write_config(const AdapterSettings& settings, Json& config) {
    config["r"] = settings.rank;
    config["lora_alpha"] = settings.scale * static_cast<double>(settings.rank);
    config["lora_dropout"] = 0.0;
    config["bias"] = "none";
    config["use_rslora"] = false;
    config["use_dora"] = settings.has_magnitudes;
    config["init_lora_weights"] = true;
    config["rank_pattern"] = Json::object();
    config["alpha_pattern"] = Json::object();
}

// Fields that are not read here are refused if they are set at all (read_peft_config). The fields below are set to
// other values than null, false and nothing, and change no number.
void require_plain(const Json& config, std::string_view where) {
    // Others began from another base than the one that they name, or change how the pair is applied.
    static constexpr std::string_view kHarmless[] = {"gaussian", "eva", "orthogonal"};
    const Json first = config.value("init_lora_weights", Json(true));
    const bool is_plain =
        first.is_boolean() || first.is_null() ||
        (first.is_string() && std::ranges::find(kHarmless, first.get<std::string>()) != std::end(kHarmless));
    if (!is_plain)
        throw UserError(ExitCode::model, where,
                        "\"init_lora_weights\" is {}: such an adapter belongs to a base that was changed with it",
                        shown(first))
            .hint("to merge it with peft, and to give the merged model");
    const Json bias = config.value("bias", Json("none"));
    if (bias != "none" && !bias.is_null())
        throw UserError(ExitCode::model, where, "\"bias\" is {}, expected \"none\": trained biases are not implemented",
                        shown(bias))
            .hint("to merge it with peft, and to give the merged model");
}

AdapterSettings read_config(const Json& config, std::string_view where) {
    require_plain(config, where);
    const int64_t rank = integer_field(config, "r", 8, 1, kAdapterRankMax, where);
    const double alpha = number_field(config, "lora_alpha", 8, where);
    const bool by_root = flag_field(config, "use_rslora", where);
    const auto r = static_cast<double>(rank);
    const double scale = alpha / (by_root ? std::sqrt(r) : r);
    if (std::abs(scale) > kScaleMax)
        throw UserError(ExitCode::model, where, "\"lora_alpha\" is {}, a scale of {}, expected one of at most {}",
                        alpha, scale, kScaleMax)
            .hint("an adapter that peft has saved");
    return {.kind = "lora", .rank = rank, .scale = scale, .has_magnitudes = flag_field(config, "use_dora", where)};
}

}  // namespace lora_adapter

constinit const AdapterKind kLora = {
    .name = "lora",
    .peft_type = "LORA",
    .parts = lora_adapter::parts,
    .write = lora_adapter::write,
    .write_narrow = lora_adapter::write_narrow,
    .fuse = lora_adapter::fuse,
    .magnitudes = lora_adapter::magnitudes,
    .write_config = lora_adapter::write_config,
    .read_config = lora_adapter::read_config,
    .by_module = lora_adapter::kByModule,
    .fields =
        "trainable_token_indices rank_pattern alpha_pattern r lora_alpha use_rslora use_dora init_lora_weights bias "
        "lora_dropout "
        "fan_in_fan_out",
};

}  // namespace windlass
