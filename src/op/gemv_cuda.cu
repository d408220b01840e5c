#include "op/gemv_cuda.h"

#include "device/cuda/unroll.h"
#include "op/numbers_cuda.h"

namespace windlass {
namespace gemv_kernels {

// A warp takes an output: its lanes read the weights' row side by side, a few packs at a time so that enough is on its
// way from memory.
constexpr unsigned kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kPacksAtOnce = 4;

// Numbers that are read at once: 16 bytes where rows are aligned, else one.
template <typename T, bool kAligned>
struct alignas(kAligned ? 16 : sizeof(T)) Pack {
    static constexpr int kCount = kAligned ? 16 / sizeof(T) : 1;
    T numbers[kCount];
};

template <typename T, bool kAligned>
__device__ Pack<T, kAligned> load(const CudaValue& value, int64_t row, int64_t pack) {
    const T* const begin = static_cast<const T*>(value.data) + row * value.stride;
    return reinterpret_cast<const Pack<T, kAligned>*>(begin)[pack];
}

template <typename T, bool kAligned, int kRows>
__device__ void add_products(const GemvArgs& args, int64_t output, float (&sums)[kRows]) {
    using Numbers = Pack<T, kAligned>;
    const int64_t packs = args.inputs / Numbers::kCount;
    for (int64_t first = threadIdx.x % kWarp; first < packs; first += kPacksAtOnce * kWarp) {
        Numbers weights[kPacksAtOnce];
        WINDLASS_UNROLL
        for (int i = 0; i < kPacksAtOnce; ++i) {
            const int64_t pack = first + i * static_cast<int64_t>(kWarp);
            weights[i] = pack < packs ? load<T, kAligned>(args.weights, output, pack) : Numbers{};
        }
        WINDLASS_UNROLL
        for (int i = 0; i < kPacksAtOnce; ++i) {
            const int64_t pack = first + i * static_cast<int64_t>(kWarp);
            if (pack >= packs) continue;
            WINDLASS_UNROLL
            for (int row = 0; row < kRows; ++row) {
                const Numbers x = load<T, kAligned>(args.x, row, pack);
                WINDLASS_UNROLL
                for (int j = 0; j < Numbers::kCount; ++j)
                    sums[row] = __fmaf_rn(widen(x.numbers[j]), widen(weights[i].numbers[j]), sums[row]);
            }
        }
    }
}

template <typename T, typename Out, bool kAligned, int kRows>
__global__ void gemv_kernel(GemvArgs args) {
    const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
    if (output >= args.outputs) return;  // a whole warp
    float sums[kRows] = {};
    add_products<T, kAligned, kRows>(args, output, sums);
    const float bias = args.bias == nullptr ? 0 : widen(static_cast<const Out*>(args.bias)[output]);
    WINDLASS_UNROLL
    for (int row = 0; row < kRows; ++row) {
        const float sum = warp_sum(sums[row]);
        if (threadIdx.x % kWarp == 0) write<Out>(args.y, row, output, sum + bias);
    }
}

template <typename T, typename Out, bool kAligned>
void launch_of_rows(const GemvArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid{.blocks = (args.outputs + kWarps - 1) / kWarps, .threads = kThreads};
    switch (args.rows) {
        case 1:
            return launch(stream, grid, gemv_kernel<T, Out, kAligned, 1>, args, "gemv");
        case 2:
            return launch(stream, grid, gemv_kernel<T, Out, kAligned, 2>, args, "gemv");
        case 3:
            return launch(stream, grid, gemv_kernel<T, Out, kAligned, 3>, args, "gemv");
        default:
            return launch(stream, grid, gemv_kernel<T, Out, kAligned, 4>, args, "gemv");
    }
}

template <typename T, typename Out>
void launch_of_type(const GemvArgs& args, CudaStreamHandle stream) {
    args.aligned ? launch_of_rows<T, Out, true>(args, stream) : launch_of_rows<T, Out, false>(args, stream);
}

}  // namespace gemv_kernels

void launch_gemv(bool is_bf16, bool gives_f32, const GemvArgs& args, CudaStreamHandle stream) {
    if (!is_bf16) return gemv_kernels::launch_of_type<float, float>(args, stream);
    gives_f32 ? gemv_kernels::launch_of_type<bf16, float>(args, stream)
              : gemv_kernels::launch_of_type<bf16, bf16>(args, stream);
}

}  // namespace windlass
