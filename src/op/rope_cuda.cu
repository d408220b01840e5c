#include "op/numbers_cuda.h"
#include "op/rope_angle.h"
#include "op/rope_cuda.h"

namespace windlass {
namespace rope_kernels {

constexpr int64_t kThreads = 128;

// A thread a token and pair: its angle is the same in every head and direction.
template <typename T>
__global__ void rope_kernel(RopeArgs args) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= args.tokens * args.pairs) return;
    const int64_t token = quotient(at, args.pairs), pair = at - token * args.pairs;
    const int32_t position = args.positions[token];
    const float angle = static_cast<float>(args.backwards ? -position : position) * args.frequencies[pair];
    const Angle turned = cos_sin(static_cast<double>(angle));
    const float cos = static_cast<float>(turned.cos), sin = static_cast<float>(turned.sin);
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
    const CudaGrid grid = rope_kernels::grid_of(args.tokens * args.pairs);
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, rope_kernels::rope_kernel<T>, args, "rope"));
}

void launch_rope_part(bool is_bf16, const RopePartArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid = rope_kernels::grid_of(args.tokens * (args.pairs + args.still + args.passed));
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, rope_kernels::rope_part_kernel<T>, args, "rope of a part"));
}

}  // namespace windlass
