// best_rule.h: what a run's configuration says of its best step, for the rows that it evaluates on.
#pragma once

#include <optional>

#include "config/config.h"
#include "data/data.h"
#include "state/best_step.h"

namespace windlass {

// Nothing if no step is better than another. `data`: null in plans, which have no data. UserError(usage) where
// evaluations would not report the metric, and where there are no rows to evaluate on.
std::optional<BestRule> best_rule(const Config& config, const RunData* data);

}  // namespace windlass
