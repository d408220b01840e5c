#include "method/norm_cuda.h"

#include "base/math.h"
#include "device/cuda/cuda_stream.h"
#include "method/norm_kernel_cuda.h"

namespace windlass {
namespace norm_cells {

// As many at a time as the argument of a kernel holds.
void sum_squares_cuda(std::span<const SquaresOf> gradients, Stream& stream) {
    while (!gradients.empty()) {
        SumSquaresArgs args;
        for (; args.count < kSquaresOfLaunch && args.count < std::ssize(gradients); ++args.count) {
            args.gradients[args.count] = gradients[static_cast<size_t>(args.count)];
            args.first_chunk[args.count] = args.chunks;
            args.chunks += div_up(args.gradients[args.count].count, kNormChunkElements);
        }
        launch_sum_squares(args, cuda_handle(stream));
        gradients = gradients.subspan(static_cast<size_t>(args.count));
    }
}

}  // namespace norm_cells

constinit const SumSquaresKernel kSumSquaresCuda = norm_cells::sum_squares_cuda;

}  // namespace windlass
