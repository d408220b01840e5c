// settings.h: hyperparameters, with the names that users know; a method takes those it uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "method/state_format.h"
#include "method/trained_model.h"
#include "perturb/estimator.h"
#include "perturb/moments.h"
#include "perturb/noise_kernel.h"

namespace windlass {

struct MethodOptions {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.0;
    double max_grad_norm = 1.0;  // 0: no clipping
    bool split_masters = false;  // of methods that train weights in the type of their files: fp32 masters instead
    StateFormat state_format = StateFormat::fp32;
    double zo_eps = 1e-3;                            // how far from the weights a step looks
    int directions = 1;                              // random directions of a step, at most kDirectionsMax
    double scalar_clip = 0;                          // what a step finds along a direction is cut to this; 0: it is not
    NoiseKind noise = NoiseKind::gaussian;           // or rademacher, or low_rank:
    int noise_rank = 2;                              // of directions over matrices
    int64_t noise_window = 50;                       // steps for which a factor is kept; 0: all of a run's
    bool noise_keeps_left = false;                   // both factors are kept, not only the right one
    ZoEstimator estimator = ZoEstimator::two_sided;  // the points of zeroth order, and how losses become slopes
    double layer_drop = 0;  // share of the layers that a step leaves alone (perturb/layer_drop.h), in [0, 1)
    // Zeroth order: share of each matrix that is probed and updated, its smallest weights; which those are says
    // ParamPerturb::magnitude_limit.
    double sparse_share = 1;
    NoiseMoments moments = NoiseMoments::none;
    int replay_window = kReplayWindow;  // steps that moments are made of
    Merge merge = Merge::each_step;
};

// Settings that contradict each other, and what to set instead.
struct Problem {
    std::string what, hint;
};
// All of them, for a method that there is: configuration, recipes and readers of logs refuse the same things in the
// same words.
std::vector<Problem> problems(std::string_view method, const MethodOptions& options);

}  // namespace windlass
