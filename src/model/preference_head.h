// preference_head.h: a head that tells the loss of pairs of rows rather than those of tokens.
#pragma once

#include "model/spec.h"
#include "op/ops.h"

namespace windlass {

// The model, its head's loss followed by preference. Weights, their names and files stay what they are.
ModelSpec judge_pairs(ModelSpec model, const PreferenceAttrs& attrs);

}  // namespace windlass
