#include "op/numbers_cuda.h"
#include "op/rope_angle.h"
#include "op/rope_cuda.h"

namespace windlass {
namespace rope_kernels {

constexpr int64_t kThreads = 128;

struct Turn {
    float cos, sin;
};
__device__ Turn turn_of(const RopeArgs& args, int64_t token, int64_t pair) {
    const int32_t position = args.positions[token];
    const float angle = static_cast<float>(args.backwards ? -position : position) * args.frequencies[pair];
    const Angle turned = cos_sin(static_cast<double>(angle));
    return {static_cast<float>(turned.cos), static_cast<float>(turned.sin)};
}

// Of 16 bytes.
template <typename T>
constexpr int kPackNumbers = 16 / sizeof(T);

template <typename T>
__device__ void turn_packs(const RopeArgs& args, int64_t row, int64_t first, const Turn* turns) {
    using Numbers = Pack<T, kPackNumbers<T>>;
    const T* const from = static_cast<const T*>(args.x.data) + row * args.x.stride + first;
    T* const to = static_cast<T*>(args.y.data) + row * args.y.stride + first;
    const Numbers low = *reinterpret_cast<const Numbers*>(from),
                  high = *reinterpret_cast<const Numbers*>(from + args.pairs);
    Numbers y = {}, z = {};
    if (args.y.adds) {
        y = *reinterpret_cast<const Numbers*>(to);
        z = *reinterpret_cast<const Numbers*>(to + args.pairs);
    }
    WINDLASS_UNROLL
    for (int n = 0; n < kPackNumbers<T>; ++n) {
        const auto [cos, sin] = turns[n];
        const float a = widen(low.numbers[n]), b = widen(high.numbers[n]);
        const float turned = a * cos - b * sin, other = b * cos + a * sin;
        y.numbers[n] = narrow<T>(args.y.adds ? widen(y.numbers[n]) + turned : turned);
        z.numbers[n] = narrow<T>(args.y.adds ? widen(z.numbers[n]) + other : other);
    }
    *reinterpret_cast<Numbers*>(to) = y;
    *reinterpret_cast<Numbers*>(to + args.pairs) = z;
}

// A block a token, whose angles it shares; 16 bytes at a time.
template <typename T>
__global__ void rope_packs_kernel(RopeArgs args) {
    const int64_t token = blockIdx.x, packs = args.pairs / kPackNumbers<T>;
    Turn* const turns = shared_memory<Turn>();
    for (int64_t pair = threadIdx.x; pair < args.pairs; pair += kThreads) turns[pair] = turn_of(args, token, pair);
    __syncthreads();
    for (int64_t row = token; row < args.directions * args.tokens; row += args.tokens)
        for (int64_t i = threadIdx.x; i < args.heads * packs; i += kThreads) {
            const int64_t head = quotient(i, packs), pair = (i - head * packs) * kPackNumbers<T>;
            turn_packs<T>(args, row, head * 2 * args.pairs + pair, turns + pair);
        }
}

template <typename T>
bool has_packs(const RopeArgs& args) {
    return args.pairs % kPackNumbers<T> == 0 && args.x.data != nullptr && args.y.data != nullptr &&
           has_aligned_packs(args.x, sizeof(T)) && has_aligned_packs(args.y, sizeof(T));
}

// A thread a token and pair: its angle is the same in every head and direction.
template <typename T>
__global__ void rope_kernel(RopeArgs args) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= args.tokens * args.pairs) return;
    const int64_t token = quotient(at, args.pairs), pair = at - token * args.pairs;
    const auto [cos, sin] = turn_of(args, token, pair);
    for (int64_t row = token; row < args.directions * args.tokens; row += args.tokens) {
        for (int64_t head = 0; head < args.heads; ++head) {
            const int64_t first = head * 2 * args.pairs + pair, second = first + args.pairs;
            const float a = read<T>(args.x, row, first), b = read<T>(args.x, row, second);
            write<T>(args.y, row, first, a * cos - b * sin);
            write<T>(args.y, row, second, b * cos + a * sin);
        }
    }
}

__device__ float frequency_of(const RopePartArgs& args, int64_t token, int64_t pair) {
    bool is_long = args.is_long;
    if (args.doc_start != nullptr) {
        const int64_t first = args.doc_start[token], at = first + args.short_length;
        is_long = at < args.length && args.doc_start[token / args.length * args.length + at] == first;
    }
    return is_long ? args.long_frequencies[pair] : args.frequencies[pair];
}

// A thread a token and pair, and one a token and column that stays.
template <typename T>
__global__ void rope_part_kernel(RopePartArgs args) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const int64_t of_token = args.pairs + args.still + args.passed;
    if (at >= args.tokens * of_token) return;
    const int64_t token = quotient(at, of_token), item = at - token * of_token;
    const int64_t size = 2 * args.pairs + args.still, end = args.directions * args.tokens;
    if (item >= args.pairs + args.still) {
        const int64_t col = args.heads * size + item - args.pairs - args.still;
        for (int64_t row = token; row < end; row += args.tokens) write<T>(args.y, row, col, read<T>(args.x, row, col));
        return;
    }
    if (item >= args.pairs) {
        for (int64_t row = token; row < end; row += args.tokens) {
            for (int64_t col = args.pairs + item; col < args.heads * size; col += size)
                write<T>(args.y, row, col, read<T>(args.x, row, col));
        }
        return;
    }
    const int32_t position = args.positions[token];
    const float angle = static_cast<float>(args.backwards ? -position : position) * frequency_of(args, token, item);
    const Angle turned = cos_sin(static_cast<double>(angle));
    const float cos = static_cast<float>(turned.cos) * args.scale, sin = static_cast<float>(turned.sin) * args.scale;
    for (int64_t row = token; row < end; row += args.tokens) {
        for (int64_t first = item; first < args.heads * size; first += size) {
            const float a = read<T>(args.x, row, first), b = read<T>(args.x, row, first + args.pairs);
            write<T>(args.y, row, first, a * cos - b * sin);
            write<T>(args.y, row, first + args.pairs, b * cos + a * sin);
        }
    }
}

CudaGrid grid_of(int64_t threads) {
    return {.blocks = (threads + kThreads - 1) / kThreads, .threads = kThreads};
}

}  // namespace rope_kernels

void launch_rope(bool is_bf16, const RopeArgs& args, CudaStreamHandle stream) {
    using namespace rope_kernels;
    const CudaGrid of_tokens{
        .blocks = args.tokens, .threads = kThreads, .shared_bytes = static_cast<unsigned>(args.pairs * sizeof(Turn))};
    WINDLASS_BY_TYPE(is_bf16, T, {
        if (has_packs<T>(args))
            launch(stream, of_tokens, rope_packs_kernel<T>, args, "rope of packs");
        else
            launch(stream, grid_of(args.tokens * args.pairs), rope_kernel<T>, args, "rope");
    });
}

void launch_rope_part(bool is_bf16, const RopePartArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid = rope_kernels::grid_of(args.tokens * (args.pairs + args.still + args.passed));
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, rope_kernels::rope_part_kernel<T>, args, "rope of a part"));
}

}  // namespace windlass
