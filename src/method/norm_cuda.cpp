#include "method/norm_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "method/norm_kernel_cuda.h"

namespace windlass {
namespace norm_cells {

void sum_squares_cuda(const SumSquaresArgs& args, Stream& stream) {
    launch_sum_squares(args, cuda_handle(stream));
}

}  // namespace norm_cells

constinit const SumSquaresKernel kSumSquaresCuda = norm_cells::sum_squares_cuda;

}  // namespace windlass
