#include "perturb/cuda_kernels.h"

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "perturb/copy_kernel_cuda.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace copy_cells {

void copy(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    WINDLASS_CHECK(pass.probe_type == WeightType::f32 || pass.probe_type == WeightType::bf16,
                   "what is computed with is f32 or bf16");
    launch_copy_weights({.weights = pass.weights,
                         .out = pass.plain,
                         .count = run.count,
                         .stored = pass.type,
                         .scale = power_of_two(pass.scale_exponent),
                         .narrows = pass.probe_type == WeightType::bf16},
                        cuda_handle(stream));
}

}  // namespace copy_cells

constinit const WeightKernel kCopyWeightsCuda = copy_cells::copy;

}  // namespace windlass
