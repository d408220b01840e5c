#include <cmath>
#include <functional>

#include "base/error.h"
#include "format/hf_config.h"

namespace windlass {
namespace {

constexpr double kThetaMin = 1.0, kThetaMax = 1e15;
constexpr double kFactorMin = 1.0, kFactorMax = 1e6;
constexpr int64_t kLengthMax = int64_t{1} << 40;
constexpr const char* kOriginal = "original_max_position_embeddings";

RopeKind rope_kind(const HfConfig& section, RopeDialect dialect) {
    const std::string name = section.find_text({"rope_type", "type"}).value_or("default");
    if (dialect == RopeDialect::phi && (name == "su" || name == "yarn")) return RopeKind::longrope;
    if (name == "default") return RopeKind::default_;
    if (name == "linear") return RopeKind::linear;
    if (name == "llama3") return RopeKind::llama3;
    if (name == "yarn") return RopeKind::yarn;
    if (name == "longrope") return RopeKind::longrope;
    throw UserError(ExitCode::model, section.where(), "rope type \"{}\" is not implemented", name)
        .hint("a model with rope type default, linear, llama3, yarn or longrope");
}

// The share of a head's channels that turn, where this object says so.
double read_rotary_share(const HfConfig& section, RopeDialect dialect, double fallback) {
    const double share = section.find_number("partial_rotary_factor", 0.0, 1.0).value_or(fallback);
    if (share != 1.0 && dialect == RopeDialect::common)
        throw UserError(ExitCode::model, section.where(), "\"partial_rotary_factor\" is {}: only 1 is implemented",
                        share);
    return share;
}

void read_llama3(RopeSpec& rope, const HfConfig& section, const HfConfig& config) {
    rope.factor = section.number("factor", kFactorMin, kFactorMax);
    rope.low_freq_factor = section.number("low_freq_factor", 1e-3, kFactorMax);
    rope.high_freq_factor = section.number("high_freq_factor", 1e-3, kFactorMax);
    rope.original_length = (section.has(kOriginal) ? section : config).integer(kOriginal, 1, kLengthMax);
    if (rope.high_freq_factor <= rope.low_freq_factor)
        throw UserError(ExitCode::model, section.where(), "\"high_freq_factor\" {} is not above \"low_freq_factor\" {}",
                        rope.high_freq_factor, rope.low_freq_factor);
}

// transformers asks the model before it asks its rope, and takes the length that the model has now where neither says.
int64_t read_original_length(const HfConfig& section, const HfConfig& config, std::optional<int64_t> fallback) {
    const std::optional<int64_t> of_model = config.find_integer(kOriginal, 2, kLengthMax);
    const std::optional<int64_t> of_rope = section.find_integer(kOriginal, 2, kLengthMax);
    if (of_model) return *of_model;
    if (fallback) return *fallback;
    return of_rope ? *of_rope : config.integer("max_position_embeddings", 2, kLengthMax);
}

// Peng et al. 2023, "YaRN", equation 22, with DeepSeek's two factors of the logarithm.
void read_yarn(RopeSpec& rope, const HfConfig& section, const HfConfig& config) {
    rope.factor = section.number("factor", kFactorMin, kFactorMax);
    rope.original_length = read_original_length(section, config, {});
    const auto bounded = [&](const char* key, double fallback) {
        const double value = section.find_number(key, 0.0, kFactorMax).value_or(0.0);
        return value == 0.0 ? fallback : value;  // transformers takes 0 as no value
    };
    rope.beta_fast = bounded("beta_fast", 32.0);
    rope.beta_slow = bounded("beta_slow", 1.0);
    rope.truncate = section.flag("truncate", true);
    const double of_turned = bounded("mscale", 0.0), of_all = bounded("mscale_all_dim", 0.0);
    const auto grown = [&](double share) {
        return rope.factor <= 1.0 ? 1.0 : 0.1 * share * std::log(rope.factor) + 1.0;
    };
    const double inferred = of_turned != 0.0 && of_all != 0.0 ? grown(of_turned) / grown(of_all) : grown(1.0);
    rope.scale = section.find_number("attention_factor", 1e-6, kFactorMax).value_or(inferred);
    if (rope.theta <= 1.0)
        throw UserError(ExitCode::model, section.where(), "\"rope_theta\" is {}: yarn needs more than 1", rope.theta);
}

std::vector<double> read_factors(const HfConfig& section, const char* key) {
    const std::optional<std::vector<double>> factors = section.find_numbers(key, 1e-6, kFactorMax);
    if (!factors)
        throw UserError(ExitCode::model, section.where(), "\"{}\" is missing: longrope needs a list of numbers", key);
    return *factors;
}

// Ding et al. 2024, "LongRoPE"; the scale is that of Phi-3's code: it goes by how far the model was stretched.
void read_longrope(RopeSpec& rope, const HfConfig& section, const HfConfig& config, RopeDialect dialect) {
    constexpr int64_t kPhiLength = 4096;  // where a file of Phi's does not say
    rope.short_factors = read_factors(section, "short_factor");
    rope.long_factors = read_factors(section, "long_factor");
    const bool is_phi = dialect == RopeDialect::phi;
    rope.original_length = read_original_length(section, config, is_phi ? std::optional(kPhiLength) : std::nullopt);
    const auto positions = static_cast<double>(config.integer("max_position_embeddings", 1, kLengthMax));
    const auto original = static_cast<double>(rope.original_length);
    const double stretched = section.find_number("factor", 1e-6, kFactorMax).value_or(positions / original);
    const double inferred = stretched <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(stretched) / std::log(original));
    rope.scale = section.find_number("attention_factor", 1e-6, kFactorMax).value_or(inferred);
}

// Values outside of the section, which count if the section does not give them.
struct Outside {
    double theta = 0, rotary_share = 1;
};

// `section` is rope_scaling, rope_parameters or one layer type's part of it; `config` is what holds it.
RopeSpec read_section(const HfConfig& section, const HfConfig& config, Outside outside, RopeDialect dialect) {
    RopeSpec rope{.kind = rope_kind(section, dialect),
                  .theta = section.find_number("rope_theta", kThetaMin, kThetaMax).value_or(outside.theta),
                  .rotary_share = read_rotary_share(section, dialect, outside.rotary_share)};
    if (rope.kind == RopeKind::linear) rope.factor = section.number("factor", kFactorMin, kFactorMax);
    if (rope.kind == RopeKind::llama3) read_llama3(rope, section, config);
    if (rope.kind == RopeKind::yarn) read_yarn(rope, section, config);
    if (rope.kind == RopeKind::longrope) read_longrope(rope, section, config, dialect);
    return rope;
}

// rope_parameters is one section, or one a layer type. Where none is asked for, they must agree.
RopeSpec read_parameters(const HfConfig& parameters, std::string_view layer_type,
                         const std::function<RopeSpec(const HfConfig&)>& read) {
    const std::vector<std::string> layer_types = parameters.section_keys();
    if (layer_types.empty()) return read(parameters);
    if (!layer_type.empty()) return read(parameters.section(layer_type));
    const RopeSpec first = read(parameters.section(layer_types[0]));
    for (const std::string& other : layer_types) {
        if (read(parameters.section(other)) != first)
            throw UserError(ExitCode::model, parameters.where(),
                            "\"{}\" and \"{}\" differ: one rope for all layers is implemented", layer_types[0], other);
    }
    return first;
}

}  // namespace

RopeSpec read_rope(const HfConfig& config, double theta_fallback, std::string_view layer_type, RopeDialect dialect) {
    const std::optional<double> stated = config.find_number("rope_theta", kThetaMin, kThetaMax);
    const Outside outside{stated.value_or(theta_fallback), read_rotary_share(config, dialect, 1.0)};
    const auto read = [&](const HfConfig& section) { return read_section(section, config, outside, dialect); };
    std::optional<RopeSpec> rope;
    if (config.has("rope_scaling")) rope = read(config.section("rope_scaling"));
    if (config.has("rope_parameters")) {
        const RopeSpec newer = read_parameters(config.section("rope_parameters"), layer_type, read);
        if ((rope && *rope != newer) || (stated && newer.theta != *stated))
            throw UserError(ExitCode::model, config.where(), "\"rope_parameters\" contradicts \"{}\"",
                            rope && *rope != newer ? "rope_scaling" : "rope_theta");
        rope = newer;
    }
    return rope.value_or(
        RopeSpec{.kind = RopeKind::default_, .theta = outside.theta, .rotary_share = outside.rotary_share});
}

}  // namespace windlass
