#include "base/error.h"
#include "device/cuda/runtime.h"
#include "op/cuda_kernels.h"
#include "op/gemm_cuda.h"

namespace windlass {

std::string product_path_cuda() {
    cuda_runtime();  // says why there is none
    WINDLASS_CHECK(false, "a runtime without kernels");
}

constinit const OpKernels kAddCuda;
constinit const OpKernels kAttentionCuda;
constinit const OpKernels kCrossEntropyCuda;
constinit const OpKernels kEmbeddingCuda;
constinit const OpKernels kGeluCuda;
constinit const OpKernels kLayerNormCuda;
constinit const OpKernels kLinearCuda;
constinit const OpKernels kMagnitudeCuda;
constinit const OpKernels kPreferenceCuda;
constinit const OpKernels kReluCuda;
constinit const OpKernels kRmsNormCuda;
constinit const OpKernels kRopeCuda;
constinit const OpKernels kScaleCuda;
constinit const OpKernels kSparseCuda;
constinit const OpKernels kSwigluCuda;
constinit const OpKernels kTanhCuda;

}  // namespace windlass
