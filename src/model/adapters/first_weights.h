// first_weights.h: what the parameters of a model begin with, where some are an adapter's.
#pragma once

#include <cstdint>

#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "model/save.h"
#include "model/spec.h"

namespace windlass {

// The model's own from its folder; an adapter's from `adapter`, or drawn by the seed, number by number, where that is
// null. All arguments outlive what is returned. UserError(model) for numbers that are not finite.
ReadMasters first_weights(const ModelFolder& base, const ModelSpec& model, uint64_t seed,
                          const AdapterFolder* adapter = nullptr);

}  // namespace windlass
