// cuda_kernels.h: the CUDA kernels of each op that has its own. x_cuda.cpp defines those of x; no_cuda.cpp is there in
// its place in builds without CUDA, and has none.
#pragma once

#include "op/op.h"

namespace windlass {

extern const OpKernels kAttentionCuda;
extern const OpKernels kCrossEntropyCuda;
extern const OpKernels kEmbeddingCuda;
extern const OpKernels kLayerNormCuda;
extern const OpKernels kLinearCuda;
extern const OpKernels kMagnitudeCuda;
extern const OpKernels kPreferenceCuda;
extern const OpKernels kRmsNormCuda;
extern const OpKernels kRopeCuda;
extern const OpKernels kScaleCuda;
extern const OpKernels kSparseCuda;

}  // namespace windlass
