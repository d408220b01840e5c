// low_rank_kernel_cuda.h: the launch of a pass along directions whose factors are drawn.
#pragma once

#include "perturb/noise_kernel_cuda.h"

namespace windlass {

inline constexpr int64_t kLowRankMax = 64;  // factors' rank: what shared memory has room for

void launch_low_rank(const NoiseCallArgs& call, const uint32_t* list, uint32_t list_words, CudaStreamHandle stream);

}  // namespace windlass
