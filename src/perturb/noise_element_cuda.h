// noise_element_cuda.h: what a pass does to eight elements once it has their sums: noise_isa.cpp, operation by
// operation. For .cu files alone.
#pragma once

#include "device/cuda/pack.h"
#include "perturb/gaussian_cuda.h"
#include "perturb/noise_kernel_cuda.h"
#include "perturb/stored_cuda.h"

namespace windlass {

// A kernel's argument: the list has at most kWords words.
template <uint32_t kWords>
struct NoiseArgs {
    NoiseCallArgs call;
    uint32_t list[kWords];

    __device__ NoiseTermWords term(uint32_t index) const {
        const uint32_t at = index * kTermWords;
        return {list[at], list[at + 1], list[at + 2], __uint_as_float(list[at + 3]), list[at + 4]};
    }
    __device__ NoiseMomentWords moment(uint32_t index) const {
        const uint32_t at = call.term_count * kTermWords + index * kMomentWords;
        return {list[at], __uint_as_float(list[at + 1]), __uint_as_float(list[at + 2])};
    }
};

namespace cuda_device {
namespace {

constexpr int kEightCount = 8;

// Eight elements whose first has a number in the model that eight divides; of the call are [begin, end).
struct Eight {
    int64_t element;
    int begin, end;
};
// Those of [first, last) in the model.
__device__ inline Eight eight_at(int64_t element, int64_t first, int64_t last) {
    const int64_t begin = first - element, end = last - element;
    return {element,
            static_cast<int>(begin < 0             ? 0
                             : begin < kEightCount ? begin
                                                   : kEightCount),
            static_cast<int>(end < 0             ? 0
                             : end < kEightCount ? end
                                                 : kEightCount)};
}

__device__ inline void clear(float (&sums)[kEightCount]) {
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) sums[e] = 0;
}

// Eight numbers of 16 bits, moved at once where all are of the call and lie at a multiple of 16 bytes.
using Halves = Pack<uint16_t, kEightCount>;
__device__ inline bool moves_at_once(const Eight& eight, const void* array, int64_t at) {
    const auto begin = reinterpret_cast<uintptr_t>(static_cast<const uint16_t*>(array) + at);
    return eight.begin == 0 && eight.end == kEightCount && begin % sizeof(Halves) == 0;
}
template <typename Encode>
__device__ void write_halves(const float (&x)[kEightCount], void* array, int64_t at, Encode encode) {
    Halves halves;
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) halves.numbers[e] = encode(x[e]);
    *reinterpret_cast<Halves*>(static_cast<uint16_t*>(array) + at) = halves;
}

__device__ inline void read_eight(const NoiseCallArgs& call, const Eight& eight, float (&x)[kEightCount]) {
    const int64_t at = eight.element - call.run.element + call.skip;
    if (call.weights != nullptr && call.stored == WeightType::bf16 && moves_at_once(eight, call.weights, at)) {
        const Halves halves = *reinterpret_cast<const Halves*>(static_cast<const uint16_t*>(call.weights) + at);
        WINDLASS_UNROLL
        for (int e = 0; e < kEightCount; ++e) x[e] = Bf16::decode(halves.numbers[e]);
        return;
    }
    const StoredNumbers numbers = stored_numbers(call.stored, call.scale);
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e)
        x[e] = call.weights != nullptr && e >= eight.begin && e < eight.end ? numbers.read(call.weights, at + e) : 0;
}

// f32, or bf16 to the nearest.
__device__ inline void write_nearest_eight(const float (&x)[kEightCount], const Eight& eight, bool narrows, void* array,
                                           int64_t at) {
    if (array == nullptr) return;
    if (narrows && moves_at_once(eight, array, at))
        return write_halves(x, array, at, [](float each) { return Bf16::encode(Bf16::nearest(each)); });
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) {
        if (e >= eight.begin && e < eight.end) write_nearest(x[e], narrows, array, at + e);
    }
}

__device__ inline void write_updated(const NoiseCallArgs& call, const Eight& eight, const float (&x)[kEightCount],
                                     int64_t at) {
    if (call.updated == nullptr) return;
    if (call.stored == WeightType::bf16 && moves_at_once(eight, call.updated, at))
        return write_halves(x, call.updated, at, [](float each) { return Bf16::encode(each); });
    const StoredNumbers numbers = stored_numbers(call.stored, call.scale);
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) {
        if (e >= eight.begin && e < eight.end) numbers.write(x[e], call.updated, at + e);
    }
}

// x <- random((x - sum) - decay x). Sixteen random bits an element: half h of a counter's words is element h's. Bit e
// of the result: element e was not beyond the limit.
__device__ inline uint32_t step_eight(const NoiseCallArgs& call, const Eight& eight, const float (&sums)[kEightCount],
                                      float (&x)[kEightCount]) {
    const WeightType type = call.updated == nullptr ? WeightType::f32 : call.stored;
    const StoredNumbers numbers = stored_numbers(type, call.scale);
    PhiloxWords random = {};
    if (type != WeightType::f32)
        random = philox_words(call.run.seed, noise_block(1, eight.element / kEightCount), kNoiseRoundingStream,
                              call.step, 0);
    uint32_t moving = 0;
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) {
        const float before = x[e];
        const float moved = call.decay == 0.0f ? before - sums[e] : (before - sums[e]) - call.decay * before;
        const float after = numbers.random(moved, random.words[e / 2] >> 16 * (e % 2) & 0xffffu);
        const bool moves = !call.masks || fabsf(before) <= call.limit;
        moving |= static_cast<uint32_t>(moves) << e;
        x[e] = moves ? after : before;
    }
    return moving;
}

__device__ inline void write_eight(const NoiseCallArgs& call, const Eight& eight, const float (&x)[kEightCount]) {
    const int64_t at = eight.element - call.run.element;
    write_updated(call, eight, x, at);
    write_nearest_eight(x, eight, call.narrows, call.plain, at);
}

// moving: of step_eight, where a step was taken whose result is not stored. Else what is stored says what is probed.
__device__ inline void probe_eight(const NoiseCallArgs& call, const Eight& eight, const float (&x)[kEightCount],
                                   const float (&sums)[kEightCount], uint32_t moving) {
    const bool is_open = call.has_step && call.updated == nullptr;
    const int64_t at = eight.element - call.run.element;
    float plus[kEightCount], minus[kEightCount];
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) {
        const bool moves = !call.masks || (is_open ? (moving >> e & 1u) != 0 : fabsf(x[e]) <= call.limit);
        const float sum = moves ? sums[e] : 0.0f;
        plus[e] = x[e] + sum;
        minus[e] = x[e] - sum;
    }
    write_nearest_eight(plus, eight, call.narrows, call.plus, at);
    write_nearest_eight(minus, eight, call.narrows, call.minus, at);
}

// m <- m + b_1 u, v <- v + b_2 (u u)
__device__ inline void add_to_moments(const NoiseMomentWords& moment, const float (&u)[kEightCount],
                                      float (&first)[kEightCount], float (&second)[kEightCount]) {
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) {
        first[e] += moment.first * u[e];
        second[e] += moment.second * (u[e] * u[e]);
    }
}
// S = m / (sqrt(v) + epsilon)
__device__ inline void divide_moments(float epsilon, const float (&first)[kEightCount],
                                      const float (&second)[kEightCount], float (&sums)[kEightCount]) {
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) sums[e] = first[e] / (sqrtf(second[e]) + epsilon);
}

}  // namespace
}  // namespace cuda_device

// The list of a short step is copied with each launch; a long one fills a kernel's arguments.
inline constexpr uint32_t kShortListWords = 400;
template <typename Launch>
void with_list(const NoiseCallArgs& call, const uint32_t* list, uint32_t words, Launch launch_with) {
    if (words <= kShortListWords) {
        NoiseArgs<kShortListWords> args{.call = call};
        for (uint32_t i = 0; i < words; ++i) args.list[i] = list[i];
        return launch_with(args);
    }
    NoiseArgs<kListWords> args{.call = call};
    for (uint32_t i = 0; i < words; ++i) args.list[i] = list[i];
    launch_with(args);
}

}  // namespace windlass
