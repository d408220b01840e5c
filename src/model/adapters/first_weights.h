// first_weights.h: what the parameters of a model begin with, where some are an adapter's.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "model/save.h"
#include "model/spec.h"

namespace windlass {

// Makes of numbers of a parameter, from its element `first` on, those that a run keeps of them. They begin and end with
// a block of 64, or end with the parameter.
using AsKept = std::function<void(int param, int64_t first, std::span<float> numbers)>;

// The model's own from its folder; an adapter's from `adapter`, or made by the seed, number by number, where that is
// null: drawn, or norms of the model's own weights as they are kept (nothing: as they are in its folder). References
// outlive what is returned. UserError(model) for numbers that are not finite.
ReadMasters first_weights(const ModelFolder& base, const ModelSpec& model, uint64_t seed,
                          const AdapterFolder* adapter = nullptr, AsKept as_kept = nullptr);

}  // namespace windlass
