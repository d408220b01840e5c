// rotary.h: the tables by which positions turn queries and keys.
#pragma once

#include <memory>
#include <vector>

#include "format/hf_config_rope.h"

namespace windlass {

struct RopeTable {
    std::vector<double> frequencies;            // radians a position, for each pair of a head's channels that turn
    double scale = 1;                           // of the turned channels
    std::vector<double> long_frequencies = {};  // of documents of more than short_length tokens; empty: none differ
    int64_t short_length = 0;
    RopeSpec source = {};  // what it was made of
};

// Frequencies of the pairs of a head, scaling applied. Default and linear: Su et al. 2021, section 3.4.2, and
// Chen et al. 2023 (position interpolation); llama3, yarn and longrope as in transformers' modeling_rope_utils.
RopeTable rope_table(const RopeSpec& rope, int64_t head_size);

// The rope of layers of type rules.bases[base] (read_rope), checked against the size of their heads.
std::shared_ptr<const RopeTable> read_rope_table(const HfConfig& config, int64_t head_size, const RopeRules& rules,
                                                 size_t base = 0);

}  // namespace windlass
