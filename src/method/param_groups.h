// param_groups.h: some parameters of a model trained otherwise than the rest, or not at all.
//
// A group is a glob over the names that parameters have in the model's files (fnmatch(3): `*` matches any characters,
// dots too, `?` one, `[0-9]` one of these). The first group that matches a parameter says how it is
// trained, as with the parameter groups of torch.optim; a parameter without a match follows the run. A tied table
// is one parameter with two names: either will do.
#pragma once

#include <span>
#include <string_view>

#include "method/trained_model.h"

namespace windlass {

inline constexpr size_t kParamGroupsMax = 256;
inline constexpr size_t kGroupMatchMax = 256;  // characters of a glob
inline constexpr double kGroupRateMax = 1e6;   // of learning_rate_scale
inline constexpr double kGroupDecayMax = 1e3;

// Sets what the groups say of each parameter, and TrainedModel::groups. UserError(usage, where) for a group that
// matches no parameter, with the names that there are; for one whose parameters all belong to earlier groups; and if
// nothing is trained.
void apply_param_groups(std::span<const ParamGroup> groups, std::string_view where, TrainedModel& model);

// Gives blocks that train other parameters than their equals a program of their own: segments, and what a plan keeps
// for backward, are made once for each program. To be called when ParamTraining::trains has been changed.
void separate_programs(TrainedModel& model);

}  // namespace windlass
