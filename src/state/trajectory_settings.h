// trajectory_settings.h: what a trajectory log's header says under `settings`: the part of the run's identity that a
// method's scalars or its update depend on (identity.h), and of the model what that depends on too
// (docs/format/trajectory.md).
#pragma once

#include <string>
#include <string_view>

#include "format/trajectory_header.h"
#include "method/forward_only/materialize.h"
#include "method/recipe.h"
#include "state/identity.h"

namespace windlass {

// As JSON.
std::string trajectory_settings(const Identity& identity, const TrainedModel& model);

// What all logs say of directions.
TrajectoryNoise logged_noise(const Noise& noise);

// What the run's method was told, as far as updates depend on it. What is not there has its default.
// UserError(storage, where) for what no run has (problems), and for what this version does not know.
MethodOptions logged_options(const TrajectoryHeader& header, std::string_view where);
// The part of the run's identity that a header says.
Identity logged_identity(const TrajectoryHeader& header, std::string_view where);
// ParamPerturb::magnitude_limit of every parameter, as the run had it.
void read_magnitude_limits(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// Adds the run's adapter to the model, with none of its training. UserError if the model has no such
// layers.
ModelSpec with_logged_adapter(const TrajectoryHeader& header, std::string_view where, ModelSpec model);

// How the run trained each parameter. Applied before anything is compared or replayed; UserError(usage, where) where
// the model has no such parameters.
void read_param_groups(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// How the run kept weights: what it did not train, and matrices in few bits, with the run's scales. The model is kept
// as_file, and has the run's groups.
void read_weight_storage(const TrajectoryHeader& header, std::string_view where, TrainedModel& model);

// UserError(usage, where) that names what differs: a resumed run writes into its own log (require_same_run).
void require_same_log(const TrajectoryHeader& was, const TrajectoryHeader& is, std::string_view where);

}  // namespace windlass
