// hf_config_rope.h: how positions turn queries and keys, as config.json says it: rope_theta next to rope_scaling (the
// spelling of transformers 4) or rope_parameters (that of 5).
//
// The result is that of transformers 5. Where a file says two things, or where transformers 4.57 builds another table
// from it than 5 does, UserError(model) says what to write instead. A test holds every key at every place against
// transformers (tests/golden/rope.json).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "format/hf_config.h"

namespace windlass {

enum class RopeKind { none, default_, linear, llama3, yarn, longrope };

// How rotary angles are made. Pair i of the first D channels of a head turns by position * theta^(-2i/D), its frequency
// divided by `factor` (linear), by a factor that depends on its wavelength (llama3, yarn), or by one of its own.
struct RopeSpec {
    RopeKind kind = RopeKind::none;
    double theta = 10000.0;
    double factor = 1.0;
    double low_freq_factor = 1.0;   // llama3: wavelengths above original_length / low_freq_factor are stretched,
    double high_freq_factor = 1.0;  // those below original_length / high_freq_factor are kept
    int64_t original_length = 0;    // positions of the model before it was stretched
    double rotary_share = 1.0;      // of a head's channels that turn
    double scale = 1.0;             // yarn, longrope: of the turned channels
    double beta_fast = 32.0;        // yarn: pairs that turn more often than this in original_length are kept,
    double beta_slow = 1.0;         // those that turn less often than this are stretched
    bool truncate = true;           // yarn: to whole pairs
    std::vector<double> short_factors = {};  // longrope: a factor a pair, for texts of up to original_length tokens,
    std::vector<double> long_factors = {};   // and for longer ones
    bool operator==(const RopeSpec&) const = default;
};

// Phi's files may turn a part of each head, and say "su" or "yarn" where they mean longrope; it has no other kinds.
enum class RopeDialect { common, phi };

// A rope of a family: the layers that turn by it, and the base that they have in a file without this key.
struct RopeBase {
    std::string_view layer_type = {};  // empty: the family has one rope
    const char* key = "rope_theta";
    double theta = 10000.0;
};
inline constexpr RopeBase kOneRope[] = {{}};

// What transformers reads in files of a family. With more bases than one, rope_parameters has a part for each type of
// layer, and all else is about layers of the first: rope_theta, rope_scaling.
struct RopeRules {
    std::span<const RopeBase> bases = kOneRope;
    RopeDialect dialect = RopeDialect::common;
};

// The rope of layers of type bases[base]. Kinds that we do not implement (dynamic, ...) and, where the dialect is not
// Phi's, a partial rotary factor are refused by name.
RopeSpec read_rope(const HfConfig& config, const RopeRules& rules = {}, size_t base = 0);

}  // namespace windlass
