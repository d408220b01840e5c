#include "model/families/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace windlass {
namespace {

int64_t turned_channels(const RopeSpec& rope, int64_t head_size) {
    return static_cast<int64_t>(static_cast<double>(head_size) * rope.rotary_share);
}

// llama3: long wavelengths are stretched by `factor`, short ones kept, those between blended.
double llama3_frequency(const RopeSpec& rope, double frequency) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    const double length = static_cast<double>(rope.original_length);
    if (wavelength > length / rope.low_freq_factor) return frequency / rope.factor;
    if (wavelength < length / rope.high_freq_factor) return frequency;
    const double keep = (length / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    return (1.0 - keep) * frequency / rope.factor + keep * frequency;
}

// yarn: the pair, as a fraction, that turns so often in the original length.
double yarn_pair(const RopeSpec& rope, int64_t channels, double turns) {
    const double length = static_cast<double>(rope.original_length);
    return static_cast<double>(channels) * std::log(length / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
}

// yarn: pairs that turn often are kept, those that turn seldom stretched by `factor`, those between blended.
double yarn_frequency(const RopeSpec& rope, int64_t channels, int64_t pair, double frequency) {
    constexpr double kWidthMin = 0.001;  // of the pairs between, in place of none
    double low = yarn_pair(rope, channels, rope.beta_fast), high = yarn_pair(rope, channels, rope.beta_slow);
    if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(channels - 1));
    if (low == high) high += kWidthMin;
    const double stretch = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    return stretch * frequency / rope.factor + (1.0 - stretch) * frequency;
}

void check_factors(const HfConfig& config, const char* key, const std::vector<double>& factors, int64_t pairs) {
    if (std::ssize(factors) != pairs)
        throw UserError(ExitCode::model, config.where(), "\"{}\" has {} numbers, heads turn {} pairs", key,
                        factors.size(), pairs)
            .hint(fmt::format("the list \"{}\" of the published model", key));
}

}  // namespace

RopeTable rope_table(const RopeSpec& rope, int64_t head_size) {
    const int64_t channels = turned_channels(rope, head_size);
    RopeTable table{.frequencies = {}, .scale = rope.scale, .source = rope};
    for (int64_t i = 0; i < channels / 2; ++i) {
        double frequency = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(channels));
        if (rope.kind == RopeKind::longrope)
            table.long_frequencies.push_back(frequency / rope.long_factors.at(static_cast<size_t>(i)));
        if (rope.kind == RopeKind::longrope) frequency /= rope.short_factors.at(static_cast<size_t>(i));
        if (rope.kind == RopeKind::linear) frequency /= rope.factor;
        if (rope.kind == RopeKind::llama3) frequency = llama3_frequency(rope, frequency);
        if (rope.kind == RopeKind::yarn) frequency = yarn_frequency(rope, channels, i, frequency);
        table.frequencies.push_back(frequency);
    }
    if (rope.kind == RopeKind::longrope) table.short_length = rope.original_length;
    return table;
}

std::shared_ptr<const RopeTable> read_rope_table(const HfConfig& config, int64_t head_size, const RopeRules& rules,
                                                 size_t base) {
    const RopeSpec rope = read_rope(config, rules, base);
    const int64_t channels = turned_channels(rope, head_size);
    if (channels % 2 != 0 || channels == 0)
        throw UserError(ExitCode::model, config.where(),
                        "\"partial_rotary_factor\" {} of heads of {} channels turns {}, expected an even number",
                        rope.rotary_share, head_size, channels)
            .hint("the \"partial_rotary_factor\" of the published model");
    if (rope.kind == RopeKind::longrope) {
        check_factors(config, "short_factor", rope.short_factors, channels / 2);
        check_factors(config, "long_factor", rope.long_factors, channels / 2);
    }
    return std::make_shared<const RopeTable>(rope_table(rope, head_size));
}

}  // namespace windlass
