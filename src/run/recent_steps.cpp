#include "run/recent_steps.h"

#include "base/error.h"

namespace windlass {

void RecentSteps::add(const StepParams& step) {
    steps_.push_back(step);
    ++pending_;
    if (!together_) ++in_place_;
    forget();
}

void RecentSteps::recall(std::vector<StepParams> steps, int pending) {
    WINDLASS_CHECK(pending >= 0 && static_cast<size_t>(pending) <= steps.size(), "{} of {} steps are pending", pending,
                   steps.size());
    steps_ = std::move(steps);
    pending_ = pending;
    in_place_ = together_ ? 0 : pending;
    forget();
}

void RecentSteps::land() {
    pending_ = in_place_ = 0;
    forget();
}

// What no update looks at any more.
void RecentSteps::forget() {
    const size_t wanted = static_cast<size_t>(pending_) + history_;
    if (steps_.size() > wanted) steps_.erase(steps_.begin(), steps_.end() - static_cast<std::ptrdiff_t>(wanted));
}

}  // namespace windlass
