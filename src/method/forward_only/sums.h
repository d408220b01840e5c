// sums.h: what a run has made of matrices whose kept numbers never change (Merge::never): a sum of low rank next to
// them.
//
// Both factors of a direction are kept for the whole run (TeZO), so the sum over all steps is one matrix of the
// directions' rank together, and all that steps add to is one number for each direction and rank. Formulas: README.md.
#pragma once

#include <span>
#include <vector>

#include "method/step.h"
#include "method/trained_model.h"
#include "perturb/low_rank_sum.h"

namespace windlass {

class LowRankSums {
  public:
    explicit LowRankSums(const TrainedModel& model);  // outlives this
    LowRankSums(const LowRankSums&) = delete;
    LowRankSums& operator=(const LowRankSums&) = delete;

    // A step was applied. To be called in order of steps.
    void add(const StepParams& step);
    // Those of no step.
    void clear();
    // By parameter, of those that are never merged; null for all others. Stays where it is.
    std::span<const LowRankSum* const> by_param() const { return by_param_; }
    bool empty() const { return entries_.empty(); }

  private:
    struct Entry {
        int param;
        int64_t element;
        LowRankSum sum;
    };
    const TrainedModel& model_;
    std::vector<Entry> entries_;
    std::vector<const LowRankSum*> by_param_;
};

}  // namespace windlass
