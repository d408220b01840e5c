#include "run/recent_steps.h"

#include "base/error.h"

namespace windlass {

void RecentSteps::add(const StepParams& step) {
    steps_.push_back(step);
    ++deferred_;
    if (!together_) ++in_place_;
    forget();
}

void RecentSteps::recall(std::vector<StepParams> steps, int deferred) {
    WINDLASS_CHECK(deferred >= 0 && static_cast<size_t>(deferred) <= steps.size(), "{} of {} steps are deferred",
                   deferred, steps.size());
    steps_ = std::move(steps);
    deferred_ = deferred;
    in_place_ = together_ ? 0 : deferred;
    forget();
}

void RecentSteps::land() {
    deferred_ = in_place_ = 0;
    forget();
}

// Drops steps that no update reads any more.
void RecentSteps::forget() {
    const size_t wanted = static_cast<size_t>(deferred_) + history_;
    if (steps_.size() > wanted) steps_.erase(steps_.begin(), steps_.end() - static_cast<std::ptrdiff_t>(wanted));
}

}  // namespace windlass
