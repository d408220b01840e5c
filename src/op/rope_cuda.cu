#include "op/numbers_cuda.h"
#include "op/rope_angle.h"
#include "op/rope_cuda.h"

namespace windlass {
namespace {

constexpr int64_t kThreads = 128;

// A thread a token and pair: its angle is the same in every head and direction.
template <typename T>
__global__ void rope_kernel(RopeArgs args) {
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at >= args.tokens * args.pairs) return;
    const int64_t token = at / args.pairs, pair = at % args.pairs;
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

}  // namespace

void launch_rope(bool is_bf16, const RopeArgs& args, CudaStreamHandle stream) {
    const int64_t blocks = (args.tokens * args.pairs + kThreads - 1) / kThreads;
    const CudaGrid grid{.blocks = static_cast<unsigned>(blocks), .threads = kThreads};
    WINDLASS_BY_TYPE(is_bf16, T, launch(stream, grid, rope_kernel<T>, args, "rope"));
}

}  // namespace windlass
