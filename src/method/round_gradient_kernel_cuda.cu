// The arithmetic of round_gradient_isa.cpp, operation by operation: only - * /, each rounded once, and integers. So the
// bits are the CPU's.
#include "device/cuda/philox.h"
#include "method/round_gradient_kernel_cuda.h"

namespace windlass {
namespace round_gradient_kernels {

constexpr unsigned kThreads = kEightBitGradients, kWarps = kThreads / kWarp;
constexpr uint32_t kNotFinite = 0x7f800000u, kSign = 0x80000000u;

struct Place {
    int64_t first;  // of the block of threads
    int64_t i;
};
__device__ Place place_of_thread() {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads;
    return {first, first + threadIdx.x};
}

__device__ uint32_t word_of(const GradientNoise& noise, int64_t i) {
    const PhiloxWords found =
        philox_words(noise.seed, noise.block + static_cast<uint64_t>(i / 4), noise.stream, noise.step, 0);
    const unsigned word = static_cast<unsigned>(i % 4);
    return word == 0 ? found.words[0] : word == 1 ? found.words[1] : word == 2 ? found.words[2] : found.words[3];
}

__device__ float scale_number(uint16_t scale) {
    return __uint_as_float(static_cast<uint32_t>(scale) << 16);
}
__device__ bool is_finite(uint16_t scale) {
    return (scale & 0x7f80) != 0x7f80;
}

__global__ void bf16_kernel(RoundGradientArgs args) {
    const int64_t i = place_of_thread().i;
    if (i >= args.run.count) return;
    const uint32_t bits = __float_as_uint(args.run.sum[i]);
    const uint32_t random = (bits & kNotFinite) == kNotFinite ? 0 : word_of(args.noise, i) >> 16;
    const uint16_t kept = static_cast<uint16_t>((bits + random) >> 16);
    args.run.sum[i] = scale_number(kept);
    if (args.run.narrow != nullptr) reinterpret_cast<uint16_t*>(args.run.narrow)[i] = kept;
}

// The greatest size of each thread's block of kBlock numbers. `room`: a word of shared memory for each warp.
template <int64_t kBlock>
__device__ uint32_t largest_of_block(uint32_t size, uint32_t* room) {
    size = warp_max(size);
    if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = size;
    __syncthreads();
    constexpr unsigned kWarpsOfBlock = kBlock / kWarp;
    const unsigned first = threadIdx.x / kWarp / kWarpsOfBlock * kWarpsOfBlock;
    uint32_t greatest = room[first];
    for (unsigned warp = first + 1; warp < first + kWarpsOfBlock; ++warp)
        greatest = greatest > room[warp] ? greatest : room[warp];
    return greatest;
}

__device__ uint16_t scale_of(uint32_t largest, int levels) {
    if (largest >= kNotFinite) return 0x7fc0;
    const float unit = __uint_as_float(largest) / static_cast<float>(levels);
    return static_cast<uint16_t>((__float_as_uint(unit) + 0xffffu) >> 16);
}

template <int kLevels>
__device__ int32_t code_of(float x, float scale, uint32_t word) {
    const float multiple = x / scale;
    const int32_t cut = static_cast<int32_t>(multiple);
    const int32_t below = cut - (static_cast<float>(cut) > multiple ? 1 : 0);
    const float fraction = multiple - static_cast<float>(below);
    const int32_t code = below + (static_cast<float>(word >> 8) * 0x1p-24f < fraction ? 1 : 0);
    return code < -kLevels ? -kLevels : code > kLevels ? kLevels : code;
}

template <int64_t kBlock, int kLevels>
__global__ void codes_kernel(RoundGradientArgs args) {
    uint32_t* const room = shared_memory<uint32_t>();
    const int64_t i = place_of_thread().i;
    const bool is_here = i < args.run.count;
    const float x = is_here ? args.run.sum[i] : 0.0f;
    const uint16_t scale = scale_of(largest_of_block<kBlock>(__float_as_uint(x) & ~kSign, room), kLevels);
    const float unit = scale_number(scale);
    const bool is_void = scale == 0 || !is_finite(scale);
    const int32_t code = is_void || !is_here ? 0 : code_of<kLevels>(x, unit, word_of(args.noise, i));
    if (is_here) args.run.sum[i] = is_void ? unit : static_cast<float>(code) * unit;
    if (args.run.narrow == nullptr) return;
    if (is_here && i % kBlock == 0) args.run.scales[i / kBlock] = scale;
    if (kLevels == kEightBitLevels) {
        if (is_here) args.run.narrow[i] = static_cast<uint8_t>(code);
        return;
    }
    const int32_t next = __shfl_xor_sync(0xffffffffu, code, 1);
    if (is_here && i % 2 == 0) args.run.narrow[i / 2] = static_cast<uint8_t>((code & 0xf) | (next & 0xf) << 4);
}

__global__ void widen_kernel(WidenGradientArgs args) {
    const int64_t i = place_of_thread().i;
    const WideRun& run = args.run;
    if (i >= run.count) return;
    if (args.format == GradientFormat::bf16) {
        run.wide[i] = scale_number(reinterpret_cast<const uint16_t*>(run.narrow)[i]);
        return;
    }
    const bool is_i8 = args.format == GradientFormat::i8;
    const int32_t nibble = run.narrow[i / 2] >> (i % 2 * 4) & 0xf;
    const int32_t code = is_i8 ? static_cast<int8_t>(run.narrow[i]) : (nibble ^ 8) - 8;
    const uint16_t scale = run.scales[is_i8 ? i / kEightBitGradients : i / kFourBitGradients];
    run.wide[i] = is_finite(scale) ? static_cast<float>(code) * scale_number(scale) : scale_number(scale);
}

CudaGrid grid_of(int64_t count) {
    return {
        .blocks = (count + kThreads - 1) / kThreads, .threads = kThreads, .shared_bytes = kWarps * sizeof(uint32_t)};
}

}  // namespace round_gradient_kernels

void launch_round_gradient(const RoundGradientArgs& args, CudaStreamHandle stream) {
    const CudaGrid grid = round_gradient_kernels::grid_of(args.run.count);
    if (args.format == GradientFormat::bf16)
        launch(stream, grid, round_gradient_kernels::bf16_kernel, args, "round gradients to bf16");
    else if (args.format == GradientFormat::i8)
        launch(stream, grid, round_gradient_kernels::codes_kernel<kEightBitGradients, kEightBitLevels>, args,
               "round gradients to i8");
    else
        launch(stream, grid, round_gradient_kernels::codes_kernel<kFourBitGradients, kFourBitLevels>, args,
               "round gradients to i4");
}

void launch_widen_gradient(const WidenGradientArgs& args, CudaStreamHandle stream) {
    launch(stream, round_gradient_kernels::grid_of(args.run.count), round_gradient_kernels::widen_kernel, args,
           "widen gradients");
}

}  // namespace windlass
