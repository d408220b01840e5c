// lomo_vector.h: weights as they are kept, read as f32 and written back, rounded randomly where they are narrower.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include "base/philox_vector.h"
#include "method/lomo/lomo_kernel.h"
#include "perturb/stored_vector.h"
#include "tensor/master_vector.h"

namespace windlass::WINDLASS_ISA {
namespace {

// Numbers of one type.
template <typename Type>
struct KeptNumbers {
    static constexpr bool kRounds = Type::kRounds;
    typename Type::Element* numbers;

    [[gnu::always_inline]] float read(int64_t i) const { return Type::decode(numbers[i]); }
    [[gnu::always_inline]] void write(int64_t i, float x, uint32_t random16) const {
        numbers[i] = Type::encode(Type::random(x, random16));
    }
};

// fp32 masters in their halves (tensor/master_vector.h).
struct KeptMasters {
    static constexpr bool kRounds = false;
    uint16_t* hi;
    int16_t* lo;

    [[gnu::always_inline]] float read(int64_t i) const { return float_of(joined_master(hi[i], lo[i])); }
    [[gnu::always_inline]] void write(int64_t i, float x, uint32_t) const {
        const uint32_t bits = bits_of(x);
        hi[i] = master_hi(bits);
        lo[i] = master_lo(bits);
    }
};

template <typename Body>
[[gnu::always_inline]] inline void with_kept(const LomoWeights& weights, Body body) {
    if (weights.lo != nullptr) return body(KeptMasters{static_cast<uint16_t*>(weights.kept), weights.lo});
    with_plain_type(weights.type, [&](auto type) {
        typedef decltype(type) Type;
        body(KeptNumbers<Type>{static_cast<typename Type::Element*>(weights.kept)});
    });
}

// Sixteen random bits for each element of a block: of two that are half a block apart, the halves of one word.
struct RoundingBits {
    alignas(64) uint32_t of[kLomoBlock] = {};

    void draw(const PhiloxKeys& keys, const LomoNoise& noise, int64_t at) {
        static_assert(2 * kPhiloxRun == kLomoBlock);
        alignas(64) uint32_t words[kPhiloxRun];
        philox_run(keys, {noise.block + static_cast<uint64_t>(at / 4), noise.stream, noise.step, 0}, words);
        for (int64_t i = 0; i < kPhiloxRun; ++i) {
            of[i] = words[i] & 0xffffu;
            of[i + kPhiloxRun] = words[i] >> 16;
        }
    }
};

// Calls step(at, end, bits) for each block of a run: its elements [at, end), and the bits of the first.
template <typename Kept, typename Step>
[[gnu::always_inline]] inline void for_blocks(Kept, const LomoNoise& noise, int64_t count, Step step) {
    const PhiloxKeys keys(noise.seed);
    RoundingBits bits;
    for (int64_t at = 0; at < count; at += kLomoBlock) {
        if (Kept::kRounds) bits.draw(keys, noise, at);
        step(at, at + kLomoBlock < count ? at + kLomoBlock : count, bits.of);
    }
}

}  // namespace
}  // namespace windlass::WINDLASS_ISA
