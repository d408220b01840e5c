// sums.h: what a run has made of matrices whose kept numbers never change (Folding::never): a sum of low rank beside
// them.
//
// Both factors of a direction are kept for the whole run (TeZO), so the sum over all steps is one matrix of the
// directions' rank together, and all that steps add to is one number for each direction and rank. Formulas: README.md.
#pragma once

#include <span>
#include <vector>

#include "method/noise/factors.h"

namespace windlass {

// One matrix: kept w - sum over directions j of (scales_j u_j)^T v_j, with v_j and u_j of the run.
struct LowRankSum {
    uint64_t seed = 0;
    Noise noise;
    double kept = 1;            // what decay has left of the base
    int64_t rank = 0;           // of the matrix's directions
    std::vector<float> scales;  // [directions, rank]; empty before the first step
};

class LowRankSums {
  public:
    explicit LowRankSums(const TrainedModel& model);  // outlives this

    // A step was applied. To be called in order of steps.
    void add(const StepParams& step);
    // Those of no step.
    void clear();
    // Of a parameter that is never folded; null for all others.
    const LowRankSum* of(int param) const;
    bool empty() const { return entries_.empty(); }

  private:
    struct Entry {
        int param;
        int64_t element;
        LowRankSum sum;
    };
    const TrainedModel& model_;
    std::vector<Entry> entries_;
    std::vector<int> index_;  // by parameter: into entries_, -1 for those that have none
};

}  // namespace windlass
