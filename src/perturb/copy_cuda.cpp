#include "perturb/copy_cuda.h"

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "perturb/copy_kernel_cuda.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace {

CudaStored stored_of(WeightType type) {
    switch (type) {
        case WeightType::f32:
            return CudaStored::f32;
        case WeightType::bf16:
            return CudaStored::bf16;
        case WeightType::f16:
            return CudaStored::f16;
        case WeightType::f8:
            return CudaStored::f8;
        case WeightType::nf4:
            return CudaStored::nf4;
    }
    return CudaStored::f32;
}

void copy(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    WINDLASS_CHECK(pass.probe_type == WeightType::f32 || pass.probe_type == WeightType::bf16,
                   "what is computed with is f32 or bf16");
    launch_copy_weights({.weights = pass.weights,
                         .out = pass.plain,
                         .count = run.count,
                         .stored = stored_of(pass.type),
                         .scale = power_of_two(pass.scale_exponent),
                         .narrows = pass.probe_type == WeightType::bf16},
                        cuda_handle(stream));
}

}  // namespace

constinit const WeightKernel kCopyWeightsCuda = copy;

}  // namespace windlass
