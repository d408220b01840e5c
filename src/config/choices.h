// choices.h: what the words of a configuration mean. Only this floor compares words: code that reads a configuration
// calls these functions and gets a type.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "method/gradient_format.h"
#include "method/recipe.h"
#include "method/state_format.h"
#include "rows/rows.h"
#include "run/objective.h"
#include "schedule/plan.h"
#include "tensor/dtype.h"

namespace windlass {

// "auto": the program chooses.
bool is_open(std::string_view word);

// How parameters without a split master are kept (weight_storage).
enum class KeptAs : uint8_t { as_file, f8, nf4, split };
KeptAs kept_as(std::string_view weight_storage);

// Nothing: left open.
std::optional<std::string> policy_of(const Config& config);
std::optional<DType> compute_type_of(const Config& config);
std::optional<StateFormat> state_format_of(const Config& config);
std::optional<bool> recompute_of(const Config& config);
std::optional<UpdateTime> update_time_of(const Config& config);
std::optional<Truncation> truncation_of(const Config& config);

GradientFormat gradient_format_of(const Config& config);
Objective objective_of(const Config& config);
TrainTurns train_turns_of(const Config& config);
const Method& method_of(const Config& config);

}  // namespace windlass
