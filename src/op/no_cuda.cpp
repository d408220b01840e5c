#include "base/error.h"
#include "device/cuda/runtime.h"
#include "op/cuda_kernels.h"
#include "op/gemm_cuda.h"
#include "op/pointwise/launches_cuda.h"

namespace windlass {

namespace {

[[noreturn]] void refuse() {
    cuda_runtime();  // says why there is none
    WINDLASS_CHECK(false, "a runtime without kernels");
}

}  // namespace

std::string product_path_cuda() {
    refuse();
}

const PointwiseLaunches& pointwise_launches(Pointwise) {
    refuse();
}
void pointwise_forward_cuda(PointwiseLaunch, const OpCall&, Stream&) {
    refuse();
}
void pointwise_backward_cuda(PointwiseLaunch, std::span<const Tensor>, const OpCall&, Stream&) {
    refuse();
}
void pointwise_tangent_cuda(PointwiseLaunch, std::span<const Tensor>, const OpCall&, Stream&) {
    refuse();
}

constinit const OpKernels kAttentionCuda;
constinit const OpKernels kCrossEntropyCuda;
constinit const OpKernels kEmbeddingCuda;
constinit const OpKernels kLayerNormCuda;
constinit const OpKernels kLinearCuda;
constinit const OpKernels kMagnitudeCuda;
constinit const OpKernels kPreferenceCuda;
constinit const OpKernels kRmsNormCuda;
constinit const OpKernels kRopeCuda;
constinit const OpKernels kScaleCuda;
constinit const OpKernels kSparseCuda;

}  // namespace windlass
