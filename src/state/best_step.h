// best_step.h: which evaluated step of a run was the best so far, and when a run gives up on a better one.
//
// The rules are those of transformers. A step is the best where its value is strictly better than all before it. For
// patience an evaluation counts only where it is better by more than a threshold; the first one always does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace windlass {

struct BestRule {
    std::string metric = "loss";     // as evaluations report it
    bool greater_is_better = false;  // of scores; of a loss the lesser is
    bool keeps = false;              // its checkpoint is kept, and the run ends with its weights
    std::optional<int64_t> patience = {};
    double threshold = 0;
};

// What a run remembers of its evaluations.
struct BestStep {
    std::string metric = {};  // what `value` is of; empty: nothing was evaluated
    int64_t step = 0;         // 0: none was better than nothing, so far
    double value = 0;         // at that step
    int64_t misses = 0;       // evaluations in a row that did not count
    int64_t judged = 0;       // the last step whose evaluation is in all this
    bool operator==(const BestStep&) const = default;
};

// Takes in the evaluation after `step`; returns whether it is the best.
bool judge(const BestRule& rule, int64_t step, double value, BestStep& best);

// Patience is over.
bool gives_up(const BestRule& rule, const BestStep& best);

}  // namespace windlass
