// norm_kernel_cuda.h: the launch of the kernel of sums of squares.
#pragma once

#include "device/cuda/launch.h"
#include "method/norm_cuda.h"

namespace windlass {

// Gradients of one launch: those of a block of a dense model, and as its argument far below the 4 KiB of an old card.
inline constexpr int kSquaresOfLaunch = 32;
struct SumSquaresArgs {
    SquaresOf gradients[kSquaresOfLaunch];
    int64_t first_chunk[kSquaresOfLaunch] = {};  // of each; chunks are counted through all of them
    int64_t chunks = 0;
    int count = 0;  // of gradients
};

void launch_sum_squares(const SumSquaresArgs& args, CudaStreamHandle stream);

}  // namespace windlass
