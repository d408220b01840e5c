// lomo_kernel_cuda.h: launches of steps of LOMO and AdaLomo (lomo_kernel.h).
#pragma once

#include "device/cuda/launch.h"
#include "method/lomo/lomo_kernel.h"

namespace windlass {

struct LomoArgs {
    LomoStep step;
    LomoNoise noise;
    int64_t count = 0;
    LomoWeights weights;
    const float* gradient = nullptr;
};

// Of one parameter, in the order of adalomo.cpp.
struct AdalomoArgs {
    LomoNoise noise;
    int64_t rows = 0, cols = 0, band_rows = 0, bands = 0;
    bool is_matrix = false;
    double clip = 1, kept = 0, added = 1;  // the clip factor; b and 1 - b of the second moments
    double rate = 0, decay = 0;
    LomoWeights weights;
    const float* gradient = nullptr;
    float *row_moments = nullptr, *column_moments = nullptr;
    double *column_sums = nullptr, *row_sums = nullptr, *step_sums = nullptr, *weight_sums = nullptr;
    float *row_gains = nullptr, *column_gains = nullptr, *decay_factor = nullptr;
};

void launch_lomo(const LomoArgs& args, CudaStreamHandle stream);
void launch_adalomo(const AdalomoArgs& args, CudaStreamHandle stream);

}  // namespace windlass
