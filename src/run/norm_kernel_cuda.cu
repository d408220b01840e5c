#include "device/cuda/kernel.h"
#include "run/norm_kernel_cuda.h"
#include "schedule/numerics.h"

namespace windlass {
namespace {

constexpr unsigned kThreads = 128;
constexpr int64_t kChunksOfBlock = kThreads / kNormLanes;

// Eight lanes a chunk, each with one of its running sums; the first adds them up in the order of the host's.
__global__ void sum_squares_kernel(SumSquaresArgs args) {
    const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunksOfBlock + threadIdx.x / kNormLanes;
    const int64_t lane = threadIdx.x % kNormLanes, first = chunk * kNormChunkElements;
    const int64_t left = args.count - first, count = left < kNormChunkElements ? left : kNormChunkElements;
    double sum = 0;
    const int64_t whole = count > 0 ? count / kNormLanes * kNormLanes : 0;
    for (int64_t i = lane; i < whole; i += kNormLanes) {
        const double x = args.values[first + i];
        sum += x * x;
    }
    for (int64_t i = whole; lane == 0 && i < count; ++i) {
        const double x = args.values[first + i];
        sum += x * x;
    }
    for (unsigned apart = 1; apart < kNormLanes; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (lane == 0 && count > 0) args.partial[chunk] = sum;
}

}  // namespace

void launch_sum_squares(const SumSquaresArgs& args, CudaStreamHandle stream) {
    const int64_t chunks = (args.count + kNormChunkElements - 1) / kNormChunkElements;
    launch(stream,
           {.blocks = static_cast<unsigned>((chunks + kChunksOfBlock - 1) / kChunksOfBlock), .threads = kThreads},
           sum_squares_kernel, args, "sum of squares");
}

}  // namespace windlass
