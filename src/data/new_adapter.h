// new_adapter.h: what a configuration says of an adapter that is to be drawn: its settings for these layers.
#pragma once

#include <span>

#include "config/config.h"
#include "model/spec.h"

namespace windlass {

// For these layers of the model, each with the rank and the scale that patterns give it. UserError(usage) naming the
// key, what it is and what fits: a rank above a side of a layer, projectors wider than every layer or with more numbers
// a row than columns, bytes that no projector fits.
AdapterSettings new_adapter(const Config& config, const ModelSpec& model, std::span<const int> weights);

}  // namespace windlass
