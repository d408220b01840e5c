#include "method/round_gradient_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "method/round_gradient_kernel_cuda.h"

namespace windlass {
namespace {

void round_cuda(const RoundGradientArgs& args, Stream& stream) {
    launch_round_gradient(args, cuda_handle(stream));
}

void widen_cuda(const WidenGradientArgs& args, Stream& stream) {
    launch_widen_gradient(args, cuda_handle(stream));
}

}  // namespace

constinit const RoundGradientKernel kRoundGradientCuda = round_cuda;
constinit const WidenGradientKernel kWidenGradientCuda = widen_cuda;

}  // namespace windlass
