// The arithmetic of adamw_isa.cpp, operation by operation: only + - * / sqrt, each rounded once, and integers. So the
// bits are the CPU's.
#include "device/cuda/philox.h"
#include "method/adamw/adamw_kernel_cuda.h"

namespace windlass {
namespace {

constexpr int64_t kHalf = kAdamwBlock / 2;
constexpr uint32_t kSign = 0x80000000u;

// The split master (tensor/dtype.h).
__device__ float load_master(const uint16_t* hi, const int16_t* lo, int64_t i) {
    return __uint_as_float((static_cast<uint32_t>(hi[i]) << 16) + static_cast<uint32_t>(static_cast<int32_t>(lo[i])));
}
__device__ void store_master(float master, uint16_t* hi, int16_t* lo, int64_t i) {
    const uint32_t u = __float_as_uint(master);
    hi[i] = static_cast<uint16_t>((u + 0x8000u) >> 16);
    lo[i] = static_cast<int16_t>(static_cast<uint16_t>(u));
}

__global__ void f32_kernel(AdamwArgs<AdamwF32> args) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    const AdamwCoefficients& k = args.c;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count; i += step) {
        const float g = args.gradient[i] * k.clip;
        const float first = args.moments.m[i] * k.beta1 + g * k.one_minus_beta1;
        const float second = args.moments.v[i] * k.beta2 + g * g * k.one_minus_beta2;
        args.moments.m[i] = first;
        args.moments.v[i] = second;
        const float master = load_master(args.hi, args.lo, i) * k.decay -
                             k.step_size * (first / (sqrtf(second) / k.root_bias2 + k.epsilon));
        store_master(master, args.hi, args.lo, i);
    }
}

// What rounds elements t and t + kHalf of a block, the second with its bytes turned: the order in which the CPU's
// vectors leave words (base/philox_vector.h, philox_mixed).
__device__ uint32_t word_of(const AdamwNoise& noise, int64_t block, unsigned t) {
    const uint64_t counter = t % 64 / 4 * 2 + t % 2;
    const PhiloxWords found =
        philox_words(noise.seed, noise.block + static_cast<uint64_t>(block) * (kAdamwBlock / 4) + counter, noise.stream,
                     noise.step, 0);
    const unsigned word = t / 64 * 2 + t / 2 % 2;
    return word == 0 ? found.words[0] : word == 1 ? found.words[1] : word == 2 ? found.words[2] : found.words[3];
}
__device__ uint32_t turned(uint32_t word) {
    return word << 8 | word >> 24;
}

struct Moments {
    float first, second;
};
__device__ Moments next_moments(const AdamwCoefficients& k, float m, float v, float g) {
    const float root_gain = g * k.root_second_gain;
    return {m * k.beta1 + g * k.first_gain, v * k.beta2 + root_gain * root_gain};
}
__device__ float next_master(const AdamwCoefficients& k, float master, const Moments& now) {
    const float step = now.first * k.step_gain / (sqrtf(now.second) + k.epsilon_gain);
    return master * k.decay - step;
}

__device__ void step_bf16(const AdamwArgs<AdamwBf16>& args, int64_t i, uint32_t word) {
    if (i >= args.count) return;
    uint16_t *const m = args.moments.m + i, *const v = args.moments.v + i;
    const Moments now = next_moments(args.c, __uint_as_float(static_cast<uint32_t>(*m) << 16),
                                     __uint_as_float(static_cast<uint32_t>(*v) << 16), args.gradient[i]);
    store_master(next_master(args.c, load_master(args.hi, args.lo, i), now), args.hi, args.lo, i);
    // To one of the two bf16 numbers around x, up with the probability of the bits cut off.
    *m = static_cast<uint16_t>((__float_as_uint(now.first) + (word & 0xffffu)) >> 16);
    *v = static_cast<uint16_t>((__float_as_uint(now.second) + (word >> 16)) >> 16);
}

// A block of threads a block of elements, two each.
__global__ void bf16_kernel(AdamwArgs<AdamwBf16> args) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kAdamwBlock + threadIdx.x;
    const uint32_t word = word_of(args.noise, blockIdx.x, threadIdx.x);
    step_bf16(args, i, word);
    step_bf16(args, i + kHalf, turned(word));
}

// The 8-bit format: codes, floors and scales as adamw_isa.cpp has them.
constexpr int kCut = 20;
constexpr uint32_t kFirstOctaves = 16, kSecondOctaves = 32;

__device__ uint32_t floor_of(float scale, uint32_t octaves) {
    const uint32_t bits = __float_as_uint(scale);
    return (bits >> 23 > octaves ? bits : (octaves + 1) << 23) - (octaves << 23);
}
__device__ float decode(uint32_t code, uint32_t floor) {
    return __uint_as_float((code << kCut) + floor) - __uint_as_float(floor);
}
// The code of a magnitude, up with the probability of the bits cut off; random: kCut bits.
__device__ uint32_t encode(uint32_t size, uint32_t floor, uint32_t random) {
    const uint32_t sum = __float_as_uint(__uint_as_float(size) + __uint_as_float(floor));
    return ((sum + random) >> kCut) - (floor >> kCut);
}
__device__ float scale_of(float largest, uint32_t octaves) {
    const uint32_t exponent = ((__float_as_uint(largest) + 0xfffffu) >> 23) + 1;
    const uint32_t kept = exponent < 253u ? exponent : 253u;
    return __uint_as_float((kept > octaves ? kept : octaves + 1) << 23);
}

// The greatest of the block's words, in every thread. `room`: a word of shared memory for each warp.
__device__ uint32_t block_max(uint32_t x, uint32_t* room) {
    for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, x, apart);
        x = x > other ? x : other;
    }
    if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
    __syncthreads();
    uint32_t greatest = room[0];
    for (unsigned warp = 1; warp < kHalf / kWarp; ++warp) greatest = greatest > room[warp] ? greatest : room[warp];
    __syncthreads();
    return greatest;
}

struct Floors {
    uint32_t m_old, v_old, m_new, v_new;
};

__device__ void step_codes(const AdamwArgs<AdamwBlocks>& args, const Floors& floors, int64_t i, uint32_t word) {
    if (i >= args.count) return;
    const uint32_t m_code = args.moments.m[i], v_code = args.moments.v[i];
    const uint32_t m_size = __float_as_uint(decode(m_code & 0x7fu, floors.m_old));
    const Moments now = next_moments(args.c, __uint_as_float(m_size | (m_code & 0x80u) << 24),
                                     decode(v_code, floors.v_old), args.gradient[i]);
    store_master(next_master(args.c, load_master(args.hi, args.lo, i), now), args.hi, args.lo, i);
    const uint32_t first = __float_as_uint(now.first), second = __float_as_uint(now.second);
    const uint32_t m = encode(first & ~kSign, floors.m_new, word & ((1u << kCut) - 1));
    const uint32_t v = encode(second, floors.v_new, word >> (32 - kCut));
    args.moments.m[i] = static_cast<uint8_t>((m < 0x7fu ? m : 0x7fu) | (first & kSign) >> 24);
    // A second moment that is not zero stays so: a zero below a first moment that is not would make the step a leap.
    const uint32_t least = second != 0 ? 1 : 0, kept = v < 0xffu ? v : 0xffu;
    args.moments.v[i] = static_cast<uint8_t>(kept > least ? kept : least);
}

__global__ void blocks_kernel(AdamwArgs<AdamwBlocks> args) {
    uint32_t* const room = shared_memory<uint32_t>();
    const int64_t block = blockIdx.x, i = block * kAdamwBlock + threadIdx.x;
    uint32_t gradient = 0, m = 0, v = 0;
    for (int64_t at = i; at < args.count && at <= i + kHalf; at += kHalf) {
        const uint32_t size = __float_as_uint(args.gradient[at]) & ~kSign, m_size = args.moments.m[at] & 0x7fu;
        gradient = gradient > size ? gradient : size;
        m = m > m_size ? m : m_size;
        v = v > args.moments.v[at] ? v : args.moments.v[at];
    }
    gradient = block_max(gradient, room);
    m = block_max(m, room);
    v = block_max(v, room);
    // No moment of the block will be larger than these.
    float *const m_scale = args.moments.m_scale + block, *const v_scale = args.moments.v_scale + block;
    const uint32_t m_old = floor_of(*m_scale, kFirstOctaves), v_old = floor_of(*v_scale, kSecondOctaves);
    const Moments bounds = next_moments(args.c, decode(m, m_old), decode(v, v_old), __uint_as_float(gradient));
    const float m_new = scale_of(bounds.first, kFirstOctaves), v_new = scale_of(bounds.second, kSecondOctaves);
    __syncthreads();  // all have read the scales
    if (threadIdx.x == 0) {
        *m_scale = m_new;
        *v_scale = v_new;
    }
    const Floors floors{m_old, v_old, floor_of(m_new, kFirstOctaves), floor_of(v_new, kSecondOctaves)};
    const uint32_t word = word_of(args.noise, block, threadIdx.x);
    step_codes(args, floors, i, word);
    step_codes(args, floors, i + kHalf, turned(word));
}

CudaGrid block_grid(int64_t count) {
    return {.blocks = static_cast<unsigned>((count + kAdamwBlock - 1) / kAdamwBlock),
            .threads = kHalf,
            .shared_bytes = kHalf / kWarp * sizeof(uint32_t)};
}

}  // namespace

void launch_adamw(const AdamwArgs<AdamwF32>& args, CudaStreamHandle stream) {
    constexpr int64_t kThreads = 256, kBlocksMax = 8192;
    const int64_t blocks = (args.count + kThreads - 1) / kThreads;
    launch(stream, {.blocks = static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax), .threads = kThreads},
           f32_kernel, args, "adamw fp32");
}

void launch_adamw(const AdamwArgs<AdamwBf16>& args, CudaStreamHandle stream) {
    launch(stream, block_grid(args.count), bf16_kernel, args, "adamw bf16");
}

void launch_adamw(const AdamwArgs<AdamwBlocks>& args, CudaStreamHandle stream) {
    launch(stream, block_grid(args.count), blocks_kernel, args, "adamw int8");
}

}  // namespace windlass
