// trajectory_settings.h: what a trajectory log's header says under `settings`: what a method's scalars or its update
// depend on beside the fields that all logs have (docs/format/trajectory.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "format/trajectory_header.h"
#include "method/forward_only/materialize.h"
#include "method/recipe.h"

namespace windlass {

// As JSON. What has no effect on this method is left out.
std::string trajectory_settings(const Recipe& recipe, const MethodOptions& options, const TrainedModel& model);

// What its steps make of the steps before them. UserError(storage, where) where the log does not say it whole, or where
// this version knows no such rule.
MomentRule rule_of(const TrajectoryHeader& header, std::string_view where);
// Puts what an update depends on where update_by_steps reads it. What is not there has its default, as in logs of
// earlier versions. UserError(storage, where) for values that no run has.
void read_trajectory_settings(const TrajectoryHeader& header, std::string_view where, PerturbStep& noise);
// ParamPerturb::magnitude_limit of every parameter, as the run had it.
void read_magnitude_limits(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// How the run trained each parameter. Applied before anything is compared or replayed; UserError(usage, where) where
// the model has no such parameters.
void read_param_groups(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// How the run kept weights: where it kept matrices in 8 bits, so does the model, with the run's scales. The model is
// kept as_file.
void read_weight_storage(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// When the run folded updates into weights: so does the model.
void read_folding(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// "estimator was fzoo, is two_sided": what may not change in a run that goes on. Both headers are of one method.
std::vector<std::string> settings_differences(const TrajectoryHeader& was, const TrajectoryHeader& is);

}  // namespace windlass
