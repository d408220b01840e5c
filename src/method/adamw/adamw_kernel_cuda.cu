// The arithmetic of adamw_isa.cpp, operation by operation: only + - * / sqrt, each rounded once, and integers. So the
// bits are the CPU's.
#include "device/cuda/pack.h"
#include "device/cuda/philox.h"
#include "device/cuda/unroll.h"
#include "method/adamw/adamw_kernel_cuda.h"

namespace windlass {
namespace adamw_kernels {

constexpr unsigned kThreads = 256;
constexpr unsigned kQuads = 2;  // fours of a thread in the formats with blocks
static_assert(kAdamwBlock == 4 * kQuads * kWarp);
constexpr uint32_t kSign = 0x80000000u;

// Four numbers in a row, `have` of them present.
template <typename T>
__device__ void read_four(const T* from, int have, bool aligned, T (&to)[4]) {
    if (have == 4 && aligned) {
        const auto four = *reinterpret_cast<const Pack<T, 4>*>(from);
        WINDLASS_UNROLL
        for (int e = 0; e < 4; ++e) to[e] = four.numbers[e];
        return;
    }
    WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) to[e] = e < have ? from[e] : T{};
}
template <typename T>
__device__ void write_four(const T (&from)[4], int have, bool aligned, T* to) {
    if (have == 4 && aligned) {
        Pack<T, 4> four;
        WINDLASS_UNROLL
        for (int e = 0; e < 4; ++e) four.numbers[e] = from[e];
        *reinterpret_cast<Pack<T, 4>*>(to) = four;
        return;
    }
    WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) {
        if (e < have) to[e] = from[e];
    }
}

// Four elements and their moments, as they are stored.
template <typename T>
struct Quad {
    uint16_t hi[4];
    int16_t lo[4];
    T m[4], v[4];
    float gradient[4];
};

// How many of four elements from i on there are.
template <typename Args>
__device__ int have_at(const Args& args, int64_t i) {
    const int64_t left = args.count - i;
    return left >= 4 ? 4 : left > 0 ? static_cast<int>(left) : 0;
}

template <typename Args, typename T>
__device__ void read_quad(const Args& args, int64_t i, Quad<T>& quad) {
    const int have = have_at(args, i);
    read_four(args.hi + i, have, args.aligned, quad.hi);
    read_four(args.lo + i, have, args.aligned, quad.lo);
    read_four(args.moments.m + i, have, args.aligned, quad.m);
    read_four(args.moments.v + i, have, args.aligned, quad.v);
    read_four(args.gradient + i, have, args.aligned, quad.gradient);
}
template <typename Args, typename T>
__device__ void write_quad(const Args& args, int64_t i, const Quad<T>& quad) {
    const int have = have_at(args, i);
    write_four(quad.hi, have, args.aligned, args.hi + i);
    write_four(quad.lo, have, args.aligned, args.lo + i);
    write_four(quad.m, have, args.aligned, args.moments.m + i);
    write_four(quad.v, have, args.aligned, args.moments.v + i);
}

template <typename T>
__device__ float master_of(const Quad<T>& quad, int e) {
    return __uint_as_float(join_master({quad.hi[e], quad.lo[e]}));
}
template <typename T>
__device__ void set_master(float master, Quad<T>& quad, int e) {
    const Split halves = split_master(__float_as_uint(master));
    quad.hi[e] = halves.hi;
    quad.lo[e] = halves.lo;
}

// A thread takes four elements.
__global__ void __launch_bounds__(kThreads) f32_kernel(AdamwArgs<AdamwF32> args) {
    const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
    if (i >= args.count) return;
    const AdamwCoefficients& k = args.c;
    Quad<float> quad;
    read_quad(args, i, quad);
    WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) {
        const float g = quad.gradient[e] * k.clip;
        const float first = quad.m[e] * k.beta1 + g * k.one_minus_beta1;
        const float second = quad.v[e] * k.beta2 + g * g * k.one_minus_beta2;
        quad.m[e] = first;
        quad.v[e] = second;
        set_master(master_of(quad, e) * k.decay - k.step_size * (first / (sqrtf(second) / k.root_bias2 + k.epsilon)),
                   quad, e);
    }
    write_quad(args, i, quad);
}

// A block of elements is a warp's. A thread has two fours half a block apart, elements 64 (quarter + 2 q) + 4 t + e.
struct BlockPlace {
    int64_t block;
    unsigned t, quarter;
    __device__ int64_t first(unsigned q) const {
        return block * kAdamwBlock + (quarter + 2 * q) * (kAdamwBlock / 4) + 4 * t;
    }
};
__device__ BlockPlace place_of_thread() {
    const unsigned lane = threadIdx.x % kWarp;
    return {static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp, lane % 16, lane / 16};
}

// What rounds a thread's elements. Two half a block apart have one word, the second with its bytes turned: the order in
// which the CPU's vectors leave words (base/philox_vector.h, philox_mixed).
struct RoundingWords {
    uint32_t words[4];

    __device__ RoundingWords(const AdamwNoise& noise, const BlockPlace& place) {
        WINDLASS_UNROLL
        for (int e = 0; e < 2; ++e) {
            const uint64_t counter = static_cast<uint64_t>(place.block) * (kAdamwBlock / 4) + 2 * place.t + e;
            const PhiloxWords found = philox_words(noise.seed, noise.block + counter, noise.stream, noise.step, 0);
            words[e] = place.quarter == 0 ? found.words[0] : found.words[2];
            words[e + 2] = place.quarter == 0 ? found.words[1] : found.words[3];
        }
    }
    __device__ uint32_t of(unsigned q, int e) const { return q == 0 ? words[e] : words[e] << 8 | words[e] >> 24; }
};

template <typename Args, typename T>
__device__ void read_quads(const Args& args, const BlockPlace& place, Quad<T> (&quads)[kQuads]) {
    WINDLASS_UNROLL
    for (unsigned q = 0; q < kQuads; ++q) read_quad(args, place.first(q), quads[q]);
}
template <typename Args, typename T>
__device__ void write_quads(const Args& args, const BlockPlace& place, const Quad<T> (&quads)[kQuads]) {
    WINDLASS_UNROLL
    for (unsigned q = 0; q < kQuads; ++q) write_quad(args, place.first(q), quads[q]);
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

// To one of the two bf16 numbers around x, up with the probability of the bits cut off.
__device__ void step_bf16(const AdamwCoefficients& c, Quad<uint16_t>& quad, int e, uint32_t word) {
    const Moments now = next_moments(c, __uint_as_float(static_cast<uint32_t>(quad.m[e]) << 16),
                                     __uint_as_float(static_cast<uint32_t>(quad.v[e]) << 16), quad.gradient[e]);
    set_master(next_master(c, master_of(quad, e), now), quad, e);
    quad.m[e] = static_cast<uint16_t>((__float_as_uint(now.first) + (word & 0xffffu)) >> 16);
    quad.v[e] = static_cast<uint16_t>((__float_as_uint(now.second) + (word >> 16)) >> 16);
}

__global__ void __launch_bounds__(kThreads) bf16_kernel(AdamwArgs<AdamwBf16> args) {
    const BlockPlace place = place_of_thread();
    Quad<uint16_t> quads[kQuads];
    read_quads(args, place, quads);
    const RoundingWords words(args.noise, place);
    WINDLASS_UNROLL
    for (unsigned q = 0; q < kQuads; ++q) WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) step_bf16(args.c, quads[q], e, words.of(q, e));
    write_quads(args, place, quads);
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

__device__ uint32_t greater(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

// Upper bounds of the block's moments after the step.
__device__ Moments bounds_of(const AdamwCoefficients& c, const Quad<uint8_t> (&quads)[kQuads], uint32_t m_floor,
                             uint32_t v_floor) {
    uint32_t gradient = 0, m = 0, v = 0;
    WINDLASS_UNROLL
    for (unsigned q = 0; q < kQuads; ++q) WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) {
        gradient = greater(gradient, __float_as_uint(quads[q].gradient[e]) & ~kSign);
        m = greater(m, quads[q].m[e] & 0x7fu);
        v = greater(v, quads[q].v[e]);
    }
    gradient = warp_max(gradient);
    m = warp_max(m);
    v = warp_max(v);
    return next_moments(c, decode(m, m_floor), decode(v, v_floor), __uint_as_float(gradient));
}

struct Floors {
    uint32_t m_old, v_old, m_new, v_new;
};

__device__ void step_codes(const AdamwCoefficients& c, const Floors& floors, Quad<uint8_t>& quad, int e,
                           uint32_t word) {
    const uint32_t m_code = quad.m[e], v_code = quad.v[e];
    const uint32_t m_size = __float_as_uint(decode(m_code & 0x7fu, floors.m_old));
    const Moments now = next_moments(c, __uint_as_float(m_size | (m_code & 0x80u) << 24), decode(v_code, floors.v_old),
                                     quad.gradient[e]);
    set_master(next_master(c, master_of(quad, e), now), quad, e);
    const uint32_t first = __float_as_uint(now.first), second = __float_as_uint(now.second);
    const uint32_t m = encode(first & ~kSign, floors.m_new, word & ((1u << kCut) - 1));
    const uint32_t v = encode(second, floors.v_new, word >> (32 - kCut));
    quad.m[e] = static_cast<uint8_t>((m < 0x7fu ? m : 0x7fu) | (first & kSign) >> 24);
    // A second moment that is not zero stays so: a zero below a first moment that is not would make the step a leap.
    const uint32_t least = second != 0 ? 1 : 0, kept = v < 0xffu ? v : 0xffu;
    quad.v[e] = static_cast<uint8_t>(kept > least ? kept : least);
}

__global__ void __launch_bounds__(kThreads) blocks_kernel(AdamwArgs<AdamwBlocks> args) {
    const BlockPlace place = place_of_thread();
    if (place.block * kAdamwBlock >= args.count) return;  // whole warps
    Quad<uint8_t> quads[kQuads];
    read_quads(args, place, quads);
    // The first lane reads the block's scales, and is the one that writes them.
    const bool is_first = threadIdx.x % kWarp == 0;
    float *const m_scale = args.moments.m_scale + place.block, *const v_scale = args.moments.v_scale + place.block;
    const float m_kept = __shfl_sync(0xffffffffu, is_first ? *m_scale : 0.0f, 0);
    const float v_kept = __shfl_sync(0xffffffffu, is_first ? *v_scale : 0.0f, 0);
    const uint32_t m_old = floor_of(m_kept, kFirstOctaves), v_old = floor_of(v_kept, kSecondOctaves);
    const Moments bounds = bounds_of(args.c, quads, m_old, v_old);
    const float m_new = scale_of(bounds.first, kFirstOctaves), v_new = scale_of(bounds.second, kSecondOctaves);
    if (is_first) {
        *m_scale = m_new;
        *v_scale = v_new;
    }
    const Floors floors{m_old, v_old, floor_of(m_new, kFirstOctaves), floor_of(v_new, kSecondOctaves)};
    const RoundingWords words(args.noise, place);
    WINDLASS_UNROLL
    for (unsigned q = 0; q < kQuads; ++q) WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) step_codes(args.c, floors, quads[q], e, words.of(q, e));
    write_quads(args, place, quads);
}

// Whether fours of everything lie at multiples of their sizes.
template <typename Moments>
AdamwArgs<Moments> with_alignment(AdamwArgs<Moments> args) {
    const auto whole = [](const auto* array) { return reinterpret_cast<uintptr_t>(array) % (4 * sizeof *array) == 0; };
    args.aligned =
        whole(args.hi) && whole(args.lo) && whole(args.moments.m) && whole(args.moments.v) && whole(args.gradient);
    return args;
}

CudaGrid grid_of(int64_t threads) {
    return {.blocks = (threads + kThreads - 1) / kThreads, .threads = kThreads};
}
CudaGrid block_grid(int64_t count) {
    return grid_of((count + kAdamwBlock - 1) / kAdamwBlock * kWarp);
}

}  // namespace adamw_kernels

void launch_adamw(const AdamwArgs<AdamwF32>& args, CudaStreamHandle stream) {
    launch(stream, adamw_kernels::grid_of((args.count + 3) / 4), adamw_kernels::f32_kernel,
           adamw_kernels::with_alignment(args), "adamw fp32");
}

void launch_adamw(const AdamwArgs<AdamwBf16>& args, CudaStreamHandle stream) {
    launch(stream, adamw_kernels::block_grid(args.count), adamw_kernels::bf16_kernel,
           adamw_kernels::with_alignment(args), "adamw bf16");
}

void launch_adamw(const AdamwArgs<AdamwBlocks>& args, CudaStreamHandle stream) {
    launch(stream, adamw_kernels::block_grid(args.count), adamw_kernels::blocks_kernel,
           adamw_kernels::with_alignment(args), "adamw int8");
}

}  // namespace windlass
