#include "state/best_step.h"

#include <cmath>
#include <limits>

namespace windlass {

bool judge(const BestRule& rule, int64_t step, double value, BestStep& best) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const bool is_first = best.judged == 0;
    const double before = best.step > 0 ? best.value : rule.greater_is_better ? -kInfinity : kInfinity;
    const bool is_better = rule.greater_is_better ? value > before : value < before;
    const bool counts = is_first || (is_better && std::abs(value - before) > rule.threshold);
    best.metric = rule.metric;
    best.misses = counts ? 0 : best.misses + 1;
    best.judged = step;
    if (!is_better || !std::isfinite(value)) return false;
    best.step = step;
    best.value = value;
    return true;
}

bool gives_up(const BestRule& rule, const BestStep& best) {
    return rule.patience && best.judged > 0 && best.misses >= *rule.patience;
}

}  // namespace windlass
