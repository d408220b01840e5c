// rope_table.h: the frequencies of positions that a model's ops carry.
#pragma once

#include <vector>

#include "model/spec.h"

namespace windlass {

// Radians a position, op by op in the order of the forward pass; empty for a model without rope.
std::vector<double> rope_table(const ModelSpec& model);

// How many tokens a text may have that begins with so many: what the model was made for, but where a text of more than
// some length turns by a second table (longrope), no more than that: keys that are cached were turned by the first.
int64_t positions_for(const ModelSpec& model, int64_t prompt_tokens);

}  // namespace windlass
