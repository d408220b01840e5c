// rope_table.h: the frequencies of positions that a model's ops carry.
#pragma once

#include <vector>

#include "model/spec.h"

namespace windlass {

// Radians a position, op by op in the order of the forward pass; empty for a model without rope.
std::vector<double> rope_table(const ModelSpec& model);

// Whether a text of `tokens` turns by a second table, for long ones (longrope).
bool turns_by_long_table(const ModelSpec& model, int64_t tokens);

}  // namespace windlass
