// shortened.h: the same model with fewer layers, to plan with: everything in its middle repeats.
#pragma once

#include "model/spec.h"

namespace windlass {

// Blocks between the embedding and the head.
int layer_count(const ModelSpec& model);

// The number of layers after which they repeat: 1 if all are alike; 0 if none repeats, as when some are frozen.
int layer_period(const ModelSpec& model);

// The parameters that the embedding, the first `layers` of them and the head use, in order.
std::vector<int> params_of_first(const ModelSpec& model, int layers);

// Keeps the first `layers` of them, and the parameters that some block still uses, with their order; indices follow.
// A parameter at home in a block that is left out is at home in the first block that still uses it.
ModelSpec shortened(const ModelSpec& model, int layers);

}  // namespace windlass
