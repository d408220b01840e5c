// noise_kernel_cuda.h: launches of a pass over weights with at most one step (noise_kernel.h), and of a direction's
// factors.
#pragma once

#include <cstdint>

#include "device/cuda/launch.h"
#include "perturb/noise_kernel.h"

namespace windlass {

// A NoiseTerm without factors; low_rank: its numbers `scales` are words of the step's list from there on.
inline constexpr uint32_t kScalesDrawn = 0xffffffffu;
struct NoiseTermWords {
    uint32_t step = 0, direction = 0, kept_step = 0;
    float coefficient = 0;
    uint32_t scales = kScalesDrawn;
};
struct NoiseMomentWords {
    uint32_t term_count = 0;
    float first = 0, second = 0;
};
inline constexpr uint32_t kTermWords = 5, kMomentWords = 3;

// A NoisePass. The list holds the step's terms, after them its moments, after them scales.
struct NoiseCallArgs {
    NoiseRun run;
    // low_rank: the tiles of the matrix that have elements of the run begin with this row.
    int64_t first_row = 0;
    WeightType stored = WeightType::f32;
    float scale = 1;                // f8: of all numbers, a power of two
    const void* weights = nullptr;  // null: zeros
    int64_t skip = 0;
    void* updated = nullptr;
    bool has_step = false, adds_left = false, has_probe = false, narrows = false, masks = false;
    uint32_t step = 0, term_count = 0, moment_count = 0;
    float decay = 0, epsilon = 0, limit = 0;
    NoiseTermWords probe;
    void *plus = nullptr, *minus = nullptr, *plain = nullptr;
};

// Words of the lists that a launch may have: what a kernel's arguments have room for.
inline constexpr uint32_t kListWords = 7400;
void launch_noise(const NoiseCallArgs& call, const uint32_t* list, uint32_t list_words, CudaStreamHandle stream);

// WeightOp kWriteFactors.
struct FactorArgs {
    NoiseRun run;
    NoiseTermWords term;
    float *left = nullptr, *right = nullptr;
};
void launch_factors(const FactorArgs& args, CudaStreamHandle stream);

}  // namespace windlass
