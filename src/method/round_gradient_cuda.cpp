#include "method/round_gradient_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "method/round_gradient_kernel_cuda.h"

namespace windlass {
namespace round_gradient_cells {

void round_cuda(const RoundGradientArgs& args, Stream& stream) {
    launch_round_gradient(args, cuda_handle(stream));
}

void widen_cuda(const WidenGradientArgs& args, Stream& stream) {
    launch_widen_gradient(args, cuda_handle(stream));
}

}  // namespace round_gradient_cells

constinit const RoundGradientKernel kRoundGradientCuda = round_gradient_cells::round_cuda;
constinit const WidenGradientKernel kWidenGradientCuda = round_gradient_cells::widen_cuda;

}  // namespace windlass
