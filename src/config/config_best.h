// config_best.h: checks of keys that depend on each other: best step, early stopping, and what a run writes while it
// trains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace windlass {

// Steps are compared: the best is kept, or the run may stop early.
bool looks_for_best(const Config& config);
// metric_for_best_model without "eval_", which transformers' users may write in front of it.
std::string_view best_metric(const Config& config);

// Append what is wrong with them.
void check_best(const Config& config, std::vector<std::string>& problems);
void check_samples(const Config& config, std::vector<std::string>& problems);

}  // namespace windlass
