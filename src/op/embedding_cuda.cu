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

// The sort: tokens by their rows of the table, and those of one row in their order. A list is sorted by one digit after
// the other, the lowest first, each time without changing the order of equals: every thread counts the digits of a
// stretch of the list, and moves it to where earlier stretches and lower digits leave room.
constexpr unsigned kSortThreads = 512, kSortWarps = kSortThreads / kWarp;
constexpr int kDigitBits = 4, kDigits = 1 << kDigitBits;
constexpr unsigned kCounters = kDigits * kSortThreads;  // [kDigits, kSortThreads]

// The sum of x over the threads before this one. `room`: an int of shared memory for each warp.
__device__ int sum_before(int x, int* room) {
    const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
    int sum = x;
    for (int apart = 1; apart < static_cast<int>(kWarp); apart *= 2) {
        const int other = __shfl_sync(0xffffffffu, sum, lane < apart ? lane : lane - apart);
        if (lane >= apart) sum += other;
    }
    if (lane == static_cast<int>(kWarp) - 1) room[warp] = sum;
    __syncthreads();
    sum -= x;
    for (int earlier = 0; earlier < warp; ++earlier) sum += room[earlier];
    __syncthreads();
    return sum;
}

// Counters become the sums of all before them.
__device__ void sum_counters(int* counters, int* room) {
    int* const mine = counters + threadIdx.x * kDigits;
    int sum = 0;
    for (int i = 0; i < kDigits; ++i) sum += mine[i];
    sum = sum_before(sum, room);
    for (int i = 0; i < kDigits; ++i) {
        const int count = mine[i];
        mine[i] = sum;
        sum += count;
    }
    __syncthreads();
}

__global__ void __launch_bounds__(kSortThreads) sort_kernel(EmbeddingArgs args) {
    int *const counters = shared_memory<int>(), *const mine = counters + threadIdx.x;
    const int64_t stretch = (args.tokens + kSortThreads - 1) / kSortThreads, begin = threadIdx.x * stretch,
                  end = begin + stretch < args.tokens ? begin + stretch : args.tokens;
    const int32_t* from = nullptr;
    for (int digit = 0; digit < args.digits; ++digit) {
        const auto token_at = [&](int64_t i) { return from == nullptr ? static_cast<int32_t>(i) : from[i]; };
        const auto counter_of = [&](int32_t token) -> int& {
            return mine[(index_of(args, token) >> digit * kDigitBits & (kDigits - 1)) * kSortThreads];
        };
        for (int i = 0; i < kDigits; ++i) mine[i * kSortThreads] = 0;
        for (int64_t i = begin; i < end; ++i) ++counter_of(token_at(i));
        __syncthreads();
        sum_counters(counters, counters + kCounters);
        int32_t* const to = args.sorted + (args.digits - 1 - digit) % 2 * args.tokens;  // the last to the first list
        for (int64_t i = begin; i < end; ++i) {
            const int32_t token = token_at(i);
            to[counter_of(token)++] = token;
        }
        __syncthreads();
        from = to;
    }
}

// Each row of the table has one owner for each of its columns: a thread of the block in whose span of the sorted list
// the row's tokens begin. It adds them up in their order, and has read several before it needs the first.
constexpr int64_t kSpan = 32;
constexpr int kAhead = 8;
template <typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(EmbeddingArgs args) {
    const int64_t col = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x;
    if (col >= args.cols) return;
    const int64_t first = blockIdx.x * kSpan, last = first + kSpan < args.tokens ? first + kSpan : args.tokens;
    for (int64_t begin = first; begin < last; ++begin) {
        const int32_t id = args.ids[args.sorted[begin]];
        if (begin > 0 && args.ids[args.sorted[begin - 1]] == id) continue;
        float* const to = args.gradient + (id + args.offset) * args.cols + col;
        float sum = *to;
        bool more = true;
        for (int64_t at = begin; more; at += kAhead) {
            float x[kAhead];
            bool is_mine[kAhead];
            WINDLASS_UNROLL
            for (int n = 0; n < kAhead; ++n) {
                const int32_t token = at + n < args.tokens ? args.sorted[at + n] : -1;
                is_mine[n] = token >= 0 && args.ids[token] == id;
                x[n] = is_mine[n] ? read<T>(args.out, token, col) : 0.0f;
            }
            WINDLASS_UNROLL
            for (int n = 0; n < kAhead; ++n)
                if (is_mine[n]) sum += x[n];
            more = is_mine[kAhead - 1];
        }
        *to = sum;
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
    return {.blocks = blocks, .threads = kThreads};
}

// Of the greatest row's number.
int digits_of(int64_t rows) {
    int digits = 1;
    while ((rows - 1) >> digits * kDigitBits > 0) ++digits;
    return digits;
}

}  // namespace embedding_kernels

void launch_embedding_forward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, embedding_kernels::grid_of(args.tokens), embedding_kernels::forward_kernel<T>, args,
                            "embedding forward"));
}

void launch_embedding_backward(bool is_bf16, const EmbeddingArgs& given, CudaStreamHandle stream) {
    using namespace embedding_kernels;
    EmbeddingArgs args = given;
    args.digits = digits_of(args.rows);
    const CudaGrid one{.threads = kSortThreads, .shared_bytes = (kCounters + kSortWarps) * sizeof(int)};
    launch(stream, one, sort_kernel, args, "embedding sort");
    const CudaGrid grid{.blocks = (args.tokens + kSpan - 1) / kSpan,
                        .threads = kThreads,
                        .rows = (args.cols + kThreads - 1) / kThreads};
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, backward_kernel<T>, args, "embedding backward"));
}

void launch_embedding_tangent(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T,
                     launch(stream, embedding_kernels::grid_of(args.k * args.tokens),
                            embedding_kernels::tangent_kernel<T>, args, "embedding tangent"));
}

}  // namespace windlass
