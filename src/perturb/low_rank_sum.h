// low_rank_sum.h: the sum of a run's steps over one matrix whose factors are all kept (TeZO): a matrix of low rank.
#pragma once

#include <vector>

#include "perturb/factors.h"

namespace windlass {

// One matrix: kept w - sum over directions j of (scales_j u_j)^T v_j, with v_j and u_j of the run.
struct LowRankSum {
    uint64_t seed = 0;
    Noise noise;
    double kept = 1;            // what decay has left of the base
    int64_t rank = 0;           // of the matrix's directions
    std::vector<float> scales;  // [directions, rank]; empty before the first step
};

}  // namespace windlass
