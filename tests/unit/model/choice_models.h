// choice_models.h: models, masters and vectors of choices for the tests of what a block keeps.
#pragma once

#include <string>
#include <vector>

#include "base/rng.h"
#include "model/saved.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/model/model_runner.h"

namespace windlass {

// A decoder with norms before and behind attention and MLP, inside the residual sums, as Gemma 2 has them: here a
// backward reads what the last projection makes.
ModelSpec model_with_norms_around();
// That one under the name "norms_around", else the golden model of this name.
ModelSpec choice_model(const std::string& name);

ParamValues random_masters(const ModelSpec& model, uint64_t seed);
TokenBatch random_batch(const ModelSpec& model, int64_t rows, int64_t sequence_length, uint64_t seed);

// Bit i of `recomputed`: whether value i is computed again; those kept lie in any of the three regions.
std::vector<SaveChoice> choices_of(uint64_t recomputed, size_t count, Random& random);

}  // namespace windlass
