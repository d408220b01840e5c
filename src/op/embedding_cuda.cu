#include "op/embedding_cuda.h"
#include "op/numbers_cuda.h"

namespace windlass {
namespace {

constexpr unsigned kThreads = 128;

__device__ int64_t index_of(const EmbeddingArgs& args, int64_t token) {
    return args.ids[token] + args.offset;
}

template <typename T>
__global__ void forward_kernel(EmbeddingArgs args) {
    const int64_t token = blockIdx.x, row = index_of(args, token);
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
        write<T>(args.out, token, i, read(args.table, row * args.cols + i));
}

// Whether no token before this one has its id; in every thread of the block.
__device__ bool is_first_of_its_id(const int32_t* ids, int64_t token) {
    int* const seen = shared_memory<int>();
    bool mine = false;
    for (int64_t t = threadIdx.x; t < token && !mine; t += kThreads) mine = ids[t] == ids[token];
    const uint32_t of_warp = __ballot_sync(0xffffffffu, mine);
    if (threadIdx.x % kWarp == 0) seen[threadIdx.x / kWarp] = of_warp != 0;
    __syncthreads();
    bool any = false;
    for (unsigned warp = 0; warp < kThreads / kWarp; ++warp) any = any || seen[warp] != 0;
    return !any;
}

// The first token of an id adds up the rows of all that have it, in their order: each row of the table has one owner.
template <typename T>
__global__ void backward_kernel(EmbeddingArgs args) {
    const int64_t token = blockIdx.x;
    if (!is_first_of_its_id(args.ids, token)) return;
    float* const to = args.gradient + index_of(args, token) * args.cols;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
        float sum = to[i];
        for (int64_t t = token; t < args.tokens; ++t)
            if (args.ids[t] == args.ids[token]) sum += read<T>(args.out, t, i);
        to[i] = sum;
    }
}

// Row i of left_j^T right_j is the combination of right_j's rows by column i of left_j.
__device__ float of_factors(const EmbeddingArgs& args, int64_t direction, int64_t row, int64_t col) {
    float sum = 0;
    for (int64_t r = direction * args.rank; r < (direction + 1) * args.rank; ++r)
        sum += args.left[r * args.rows + row] * args.right[r * args.cols + col];
    return sum;
}

template <typename T>
__global__ void tangent_kernel(EmbeddingArgs args) {
    const int64_t at = blockIdx.x, direction = at / args.tokens, row = index_of(args, at % args.tokens);
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
        write<T>(args.out, at, i,
                 args.rank > 0 ? of_factors(args, direction, row, i)
                               : read<T>(args.direction, direction * args.rows + row, i));
}

CudaGrid grid_of(int64_t blocks) {
    return {
        .blocks = static_cast<unsigned>(blocks), .threads = kThreads, .shared_bytes = kThreads / kWarp * sizeof(int)};
}

}  // namespace

void launch_embedding_forward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid_of(args.tokens), forward_kernel<T>, args, "embedding forward"));
}

void launch_embedding_backward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid_of(args.tokens), backward_kernel<T>, args, "embedding backward"));
}

void launch_embedding_tangent(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, grid_of(args.k * args.tokens), tangent_kernel<T>, args, "embedding tangent"));
}

}  // namespace windlass
