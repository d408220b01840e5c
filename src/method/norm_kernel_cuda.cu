#include "device/cuda/kernel.h"
#include "device/cuda/unroll.h"
#include "method/norm_kernel_cuda.h"

namespace windlass {
namespace norm_kernels {

constexpr unsigned kThreads = kWarp;  // few chunks are to reach many multiprocessors
constexpr int64_t kChunksOfBlock = kThreads / kNormLanes;
constexpr int kBatch = 64;  // numbers of a lane that are on their way while as many are added up

struct Batch {
    float numbers[kBatch];

    __device__ void load(const float* from) {
        WINDLASS_UNROLL
        for (int n = 0; n < kBatch; ++n) numbers[n] = from[n * kNormLanes];
    }
    __device__ void add_to(double& sum) const {
        WINDLASS_UNROLL
        for (int n = 0; n < kBatch; ++n) {
            const double x = numbers[n];
            sum += x * x;
        }
    }
};

// The squares of `count` numbers, each kNormLanes after the last, in their order.
__device__ double lane_sum(const float* from, int64_t count) {
    double sum = 0;
    int64_t done = 0;
    if (count >= kBatch) {
        Batch ahead;
        ahead.load(from);
        for (; done + 2 * kBatch <= count; done += kBatch) {
            const Batch now = ahead;
            ahead.load(from + (done + kBatch) * kNormLanes);
            now.add_to(sum);
        }
        ahead.add_to(sum);
        done += kBatch;
    }
    for (; done < count; ++done) {
        const double x = from[done * kNormLanes];
        sum += x * x;
    }
    return sum;
}

struct Chunk {
    const float* values;
    double* partial;
    int64_t count;  // of its numbers
};

// The gradients are looked through in the argument's order, unrolled: an index that is known only at run time would
// copy the argument to the thread's own memory.
__device__ Chunk find_chunk(const SumSquaresArgs& args, int64_t chunk) {
    SquaresOf of = args.gradients[0];
    int64_t before = 0;
    WINDLASS_UNROLL
    for (int i = 1; i < kSquaresOfLaunch; ++i) {
        if (i < args.count && chunk >= args.first_chunk[i]) {
            of = args.gradients[i];
            before = args.first_chunk[i];
        }
    }
    const int64_t own = chunk - before, first = own * kNormChunkElements, left = of.count - first;
    const int64_t most = left < kNormChunkElements ? left : kNormChunkElements;
    return {of.values + first, of.partial + own, chunk < args.chunks ? most : 0};
}

// Eight lanes a chunk, each with one of its running sums; the first adds them up in the order of the host's.
__global__ void __launch_bounds__(kThreads) sum_squares_kernel(SumSquaresArgs args) {
    const int64_t lane = threadIdx.x % kNormLanes;
    const Chunk chunk = find_chunk(args, static_cast<int64_t>(blockIdx.x) * kChunksOfBlock + threadIdx.x / kNormLanes);
    const int64_t turns = chunk.count / kNormLanes;
    double sum = lane_sum(chunk.values + lane, turns);
    for (int64_t i = turns * kNormLanes; lane == 0 && i < chunk.count; ++i) {
        const double x = chunk.values[i];
        sum += x * x;
    }
    for (unsigned apart = 1; apart < kNormLanes; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (lane == 0 && chunk.count > 0) *chunk.partial = sum;
}

}  // namespace norm_kernels

void launch_sum_squares(const SumSquaresArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kOfBlock = norm_kernels::kChunksOfBlock;
    launch(stream, {.blocks = (args.chunks + kOfBlock - 1) / kOfBlock, .threads = norm_kernels::kThreads},
           norm_kernels::sum_squares_kernel, args, "sum of squares");
}

}  // namespace windlass
