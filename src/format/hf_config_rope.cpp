#include <array>

#include "base/error.h"
#include "format/hf_config.h"

namespace windlass {
namespace {

constexpr double kThetaMin = 1.0, kThetaMax = 1e15;
constexpr double kFactorMin = 1.0, kFactorMax = 1e6;
constexpr int64_t kLengthMax = int64_t{1} << 40;

RopeKind rope_kind(const HfConfig& section) {
    const std::string name = section.find_text({"rope_type", "type"}).value_or("default");
    if (name == "default") return RopeKind::default_;
    if (name == "linear") return RopeKind::linear;
    if (name == "llama3") return RopeKind::llama3;
    throw UserError(ExitCode::model, section.where(), "rope type \"{}\" is not implemented", name)
        .hint("a model with rope type default, linear or llama3");
}

void refuse_partial_rotary(const HfConfig& section) {
    const double factor = section.find_number("partial_rotary_factor", 0.0, 1.0).value_or(1.0);
    if (factor != 1.0)
        throw UserError(ExitCode::model, section.where(), "\"partial_rotary_factor\" is {}: only 1 is implemented",
                        factor);
}

// `section` is rope_scaling, rope_parameters or one layer type's part of it; `config` is what holds it.
RopeSpec read_section(const HfConfig& section, const HfConfig& config, double theta) {
    RopeSpec rope{.kind = rope_kind(section),
                  .theta = section.find_number("rope_theta", kThetaMin, kThetaMax).value_or(theta)};
    refuse_partial_rotary(section);
    if (rope.kind == RopeKind::default_) return rope;
    rope.factor = section.number("factor", kFactorMin, kFactorMax);
    if (rope.kind == RopeKind::linear) return rope;
    rope.low_freq_factor = section.number("low_freq_factor", 1e-3, kFactorMax);
    rope.high_freq_factor = section.number("high_freq_factor", 1e-3, kFactorMax);
    constexpr const char* kOriginal = "original_max_position_embeddings";
    rope.original_length = (section.has(kOriginal) ? section : config).integer(kOriginal, 1, kLengthMax);
    if (rope.high_freq_factor <= rope.low_freq_factor)
        throw UserError(ExitCode::model, section.where(), "\"high_freq_factor\" {} is not above \"low_freq_factor\" {}",
                        rope.high_freq_factor, rope.low_freq_factor);
    return rope;
}

// rope_parameters is one section, or one a layer type; we compute one table, so the layer types must agree.
RopeSpec read_parameters(const HfConfig& parameters, const HfConfig& config, double theta) {
    const std::vector<std::string> layer_types = parameters.section_keys();
    if (layer_types.empty()) return read_section(parameters, config, theta);
    const RopeSpec first = read_section(parameters.section(layer_types[0]), config, theta);
    for (const std::string& layer_type : layer_types) {
        if (read_section(parameters.section(layer_type), config, theta) != first)
            throw UserError(ExitCode::model, parameters.where(),
                            "\"{}\" and \"{}\" differ: one rope for all layers is implemented", layer_types[0],
                            layer_type);
    }
    return first;
}

}  // namespace

RopeSpec read_rope(const HfConfig& config, double theta_fallback) {
    const std::optional<double> stated = config.find_number("rope_theta", kThetaMin, kThetaMax);
    const double theta = stated.value_or(theta_fallback);
    refuse_partial_rotary(config);
    std::optional<RopeSpec> rope;
    if (config.has("rope_scaling")) rope = read_section(config.section("rope_scaling"), config, theta);
    if (config.has("rope_parameters")) {
        const RopeSpec newer = read_parameters(config.section("rope_parameters"), config, theta);
        if ((rope && *rope != newer) || (stated && newer.theta != *stated))
            throw UserError(ExitCode::model, config.where(), "\"rope_parameters\" contradicts \"{}\"",
                            rope && *rope != newer ? "rope_scaling" : "rope_theta");
        rope = newer;
    }
    return rope.value_or(RopeSpec{.kind = RopeKind::default_, .theta = theta});
}

}  // namespace windlass
