#include "op/embedding_cuda.h"
#include "op/numbers_cuda.h"

namespace windlass {
namespace embedding_kernels {

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

// Shared memory of backward: a word for each warp, and the tokens of a stretch that have the block's id.
constexpr int64_t kWarps = kThreads / kWarp;

// Of a condition of each thread of the block: how many threads before this one it holds for, and for how many in all.
struct Rank {
    unsigned before, all;
};
__device__ Rank rank_of(bool holds, int* room) {
    const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    const uint32_t of_warp = __ballot_sync(0xffffffffu, holds);
    if (lane == 0) room[warp] = __popc(of_warp);
    __syncthreads();
    Rank rank{static_cast<unsigned>(__popc(of_warp & ((1u << lane) - 1))), 0};
    for (unsigned w = 0; w < kWarps; ++w) {
        if (w < warp) rank.before += static_cast<unsigned>(room[w]);
        rank.all += static_cast<unsigned>(room[w]);
    }
    __syncthreads();
    return rank;
}

// The first token of an id adds up the rows of all that have it, in their order: each row of the table has one owner.
template <typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(EmbeddingArgs args) {
    int *const room = shared_memory<int>(), *const found = room + kWarps;
    const int64_t token = blockIdx.x;
    const int32_t id = args.ids[token];
    bool mine = false;
    for (int64_t t = threadIdx.x; t < token && !mine; t += kThreads) mine = args.ids[t] == id;
    if (rank_of(mine, room).all > 0) return;  // a token before this one has its id
    float* const to = args.gradient + index_of(args, token) * args.cols;
    for (int64_t begin = token; begin < args.tokens; begin += kThreads) {
        const int64_t t = begin + threadIdx.x;
        const bool holds = t < args.tokens && args.ids[t] == id;
        const Rank rank = rank_of(holds, room);
        if (rank.all == 0) continue;
        if (holds) found[rank.before] = static_cast<int>(threadIdx.x);
        __syncthreads();
        for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
            float sum = to[i];
            for (unsigned n = 0; n < rank.all; ++n) sum += read<T>(args.out, begin + found[n], i);
            to[i] = sum;
        }
        __syncthreads();
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
    return {.blocks = blocks, .threads = kThreads, .shared_bytes = (kWarps + kThreads) * sizeof(int)};
}

}  // namespace embedding_kernels

void launch_embedding_forward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, embedding_kernels::grid_of(args.tokens), embedding_kernels::forward_kernel<T>, args,
                            "embedding forward"));
}

void launch_embedding_backward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, embedding_kernels::grid_of(args.tokens), embedding_kernels::backward_kernel<T>,
                            args, "embedding backward"));
}

void launch_embedding_tangent(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, embedding_kernels::grid_of(args.k * args.tokens),
                            embedding_kernels::tangent_kernel<T>, args, "embedding tangent"));
}

}  // namespace windlass
