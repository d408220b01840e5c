// Only + - * / sqrt, each rounded once (the build turns contraction off), and integers: the same bits on every
// instruction set.
#include <cmath>

#include "base/philox_vector.h"
#include "method/adamw/adamw_kernel.h"
#include "method/adamw/adamw_vector.h"
#include "tensor/master_vector.h"

namespace windlass::WINDLASS_ISA {
namespace {

// A word of random bits serves two elements of a block, half a block apart, to the second with its bytes turned.
constexpr int64_t kHalfBlock = kAdamwBlock / 2;
static_assert(kHalfBlock == kPhiloxRun);

constexpr uint32_t kSign = 0x80000000;

struct Random {
    alignas(64) uint32_t words[kPhiloxRun];

    Random(const PhiloxKeys& keys, const AdamwNoise& noise, int64_t at) {
        philox_mixed(keys, {noise.block + static_cast<uint64_t>(at / 4), noise.stream, noise.step, 0}, words);
    }
    // Of the pair at i and i + kHalfBlock.
    template <bool kSecondHalf>
    [[gnu::always_inline]] Pair at(int64_t i) const {
        const Pair pair = load_pair(words + i);
        return kSecondHalf ? Pair{rotate8(pair.a), rotate8(pair.b)} : pair;
    }
};

// The coefficients in every lane: what is used once for each vector is read from memory as it is used.
struct Gains {
    Floats beta1, beta2, first, root_second, step, epsilon, decay;

    explicit Gains(const AdamwCoefficients& k)
        : beta1(Floats{} + k.beta1),
          beta2(Floats{} + k.beta2),
          first(Floats{} + k.first_gain),
          root_second(Floats{} + k.root_second_gain),
          step(Floats{} + k.step_gain),
          epsilon(Floats{} + k.epsilon_gain),
          decay(Floats{} + k.decay) {}
};

// Of one vector of elements.
struct Moments {
    Floats first, second;
};
[[gnu::always_inline]] inline Moments next_moments(const Gains& k, Words m, Words v, Words gradient) {
    const Floats g = as<Floats>(gradient), root_gain = g * k.root_second;
    return {as<Floats>(m) * k.beta1 + g * k.first, as<Floats>(v) * k.beta2 + root_gain * root_gain};
}
[[gnu::always_inline]] inline Words next_master(const Gains& k, Words master, const Moments& now) {
    const Floats step = now.first * k.step / (root(now.second) + k.epsilon);
    return as<Words>(as<Floats>(master) * k.decay - step);
}

// The masters of 2 kLanes elements.
[[gnu::always_inline]] inline Pair load_master(const uint16_t* hi, const int16_t* lo) {
    const Shorts low = load<Shorts>(lo), high = load<Shorts>(hi);
    return interleave(low, master_upper_bits(high, low));
}
[[gnu::always_inline]] inline void store_master(Pair master, uint16_t* hi, int16_t* lo) {
    store(lo, low_halves(master));
    store(hi, high_halves({hi_in_upper_bits(master.a), hi_in_upper_bits(master.b)}));
}

// Where the elements of a block are, or what of them is left. A block that is not full is computed in one that is,
// whose other elements are zero.
template <typename Moment>
struct Block {
    uint16_t* hi;
    int16_t* lo;
    Moment *m, *v;
    const float* gradient;

    Block from(int64_t at) const { return {hi + at, lo + at, m + at, v + at, gradient + at}; }
};
template <typename T>
void copy(T* to, const T* from, int64_t count) {
    __builtin_memcpy(to, from, static_cast<uint64_t>(count) * sizeof(T));
}
template <typename Moment, typename Step>
[[gnu::always_inline]] inline void for_blocks(const Block<Moment>& run, int64_t count, const Step& step) {
    const int64_t whole = count - count % kAdamwBlock, rest = count - whole;
    for (int64_t at = 0; at < whole; at += kAdamwBlock) step(run.from(at), at);
    if (rest == 0) return;
    uint16_t hi[kAdamwBlock] = {};
    int16_t lo[kAdamwBlock] = {};
    Moment m[kAdamwBlock] = {}, v[kAdamwBlock] = {};
    float gradient[kAdamwBlock] = {};
    const Block<Moment> last = run.from(whole);
    copy(hi, last.hi, rest), copy(lo, last.lo, rest), copy(m, last.m, rest), copy(v, last.v, rest);
    copy(gradient, last.gradient, rest);
    step(Block<Moment>{hi, lo, m, v, gradient}, whole);
    copy(last.hi, hi, rest), copy(last.lo, lo, rest), copy(last.m, m, rest), copy(last.v, v, rest);
}

// Two vectors of elements with bf16 moments.
template <bool kSecondHalf>
[[gnu::always_inline]] inline void step_bf16(const Gains& k, const Block<uint16_t>& block, const Random& random,
                                             int64_t at) {
    const Pair m_old = interleave(Shorts{}, load<Shorts>(block.m)), v_old = interleave(Shorts{}, load<Shorts>(block.v));
    const Pair master = load_master(block.hi, block.lo), gradient = load_pair(block.gradient);
    const Moments a = next_moments(k, m_old.a, v_old.a, gradient.a);
    const Moments b = next_moments(k, m_old.b, v_old.b, gradient.b);
    store_master({next_master(k, master.a, a), next_master(k, master.b, b)}, block.hi, block.lo);
    // To one of the two bf16 numbers around x, up with the probability of the bits cut off: x on the average.
    const Pair word = random.at<kSecondHalf>(at);
    store(block.m, high_halves({as<Words>(a.first) + (word.a & 0xffffu), as<Words>(b.first) + (word.b & 0xffffu)}));
    store(block.v, high_halves({as<Words>(a.second) + (word.a >> 16), as<Words>(b.second) + (word.b >> 16)}));
}

// Codes of the 8-bit format: eight to an octave, kOctaves of them below the block's scale S. Code k means
// S 2^-kOctaves (2^floor(k / 8) (1 + (k mod 8) / 8) - 1): the numbers whose sum with the floor F = S 2^-kOctaves has
// three bits of mantissa. Bits of that sum, less those of the floor, are the code, followed by the bits that are cut.
constexpr int kCut = 20;
constexpr uint32_t kFirstOctaves = 16, kSecondOctaves = 32;

// The bits of a block's floor.
template <uint32_t kOctaves>
uint32_t floor_of(float scale) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, scale);
    return (bits >> 23 > kOctaves ? bits : (kOctaves + 1) << 23) - (kOctaves << 23);
}
[[gnu::always_inline]] inline float decode(uint32_t code, uint32_t floor) {
    return __builtin_bit_cast(float, (code << kCut) + floor) - __builtin_bit_cast(float, floor);
}

// Floors in every lane. They are powers of two, and codes leave the lower halves of their words zero.
struct Floor {
    Words bits;
    Shorts upper, code;

    explicit Floor(uint32_t floor)
        : bits(Words{} + floor),
          upper(Shorts{} + static_cast<uint16_t>(floor >> 16)),
          code(Shorts{} + static_cast<uint16_t>(floor >> kCut)) {}
    // The magnitudes of codes.
    [[gnu::always_inline]] Pair decode(Shorts codes) const {
        const Pair sum = interleave(Shorts{}, (codes << (kCut - 16)) + upper);
        const Floats floor = as<Floats>(bits);
        return {as<Words>(as<Floats>(sum.a) - floor), as<Words>(as<Floats>(sum.b) - floor)};
    }
    // The code, plus the floor's, of a magnitude, up with the probability of the bits cut off; random: kCut bits.
    [[gnu::always_inline]] Words encode(Words size, Words random) const {
        return (as<Words>(as<Floats>(size) + as<Floats>(bits)) + random) >> kCut;
    }
    [[gnu::always_inline]] Shorts codes(Pair encoded) const { return narrow(encoded) - code; }
};
// The smallest power of two S for which `largest` is at most 15/16 S, the last code; kept where S and its floor are
// normal numbers.
template <uint32_t kOctaves>
float scale_of(float largest) {
    const uint32_t exponent = ((__builtin_bit_cast(uint32_t, largest) + 0xfffffu) >> 23) + 1;
    const uint32_t kept = exponent < 253u ? exponent : 253u;
    return __builtin_bit_cast(float, (kept > kOctaves ? kept : kOctaves + 1) << 23);
}

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int32_t Ints4 __attribute__((vector_size(16)));

template <typename V>
[[gnu::always_inline]] inline V max_of(V a, V b) {
    return a > b ? a : b;
}
template <typename V>
[[gnu::always_inline]] inline V min_of(V a, V b) {
    return a < b ? a : b;
}
// The larger of each two numbers that far apart in a vector.
template <int kBytes, typename V>
[[gnu::always_inline]] inline V fold(V x) {
    return max_of(x, as<V>(_mm_srli_si128(as<__m128i>(x), kBytes)));
}
template <typename Part, typename V>
[[gnu::always_inline]] inline Part parts_max(V x) {
    Part parts[sizeof(V) / sizeof(Part)];
    __builtin_memcpy(parts, &x, sizeof x);
    for (uint64_t i = 1; i < sizeof(V) / sizeof(Part); ++i) parts[0] = max_of(parts[0], parts[i]);
    return parts[0];
}

// No moment of the block will be larger than these: of the largest gradient and the largest moment, in the loop's own
// arithmetic, in which a larger number never gives a smaller result.
struct Bounds {
    float first, second;
};
Bounds bounds_of(const AdamwCoefficients& k, const Block<uint8_t>& block, uint32_t m_floor, uint32_t v_floor) {
    Ints g = {};
    for (int64_t i = 0; i < kAdamwBlock; i += kLanes) g = max_of(g, as<Ints>(load<Words>(block.gradient + i) & ~kSign));
    Bytes m = {}, v = {};
    for (int64_t i = 0; i < kAdamwBlock; i += kVectorBytes) {
        m = max_of(m, load<Bytes>(block.m + i) & 0x7f);
        v = max_of(v, load<Bytes>(block.v + i));
    }
    const Ints4 g_parts = fold<4>(fold<8>(parts_max<Ints4>(g)));
    const __m128i m_parts = as<__m128i>(parts_max<Bytes16>(m)), v_parts = as<__m128i>(parts_max<Bytes16>(v));
    const Bytes16 turns = max_of(as<Bytes16>(_mm_unpacklo_epi8(m_parts, v_parts)),  // of m and of v
                                 as<Bytes16>(_mm_unpackhi_epi8(m_parts, v_parts)));
    const auto codes = static_cast<uint32_t>(as<Ints4>(fold<2>(fold<4>(fold<8>(turns))))[0]);
    const float gradient = __builtin_bit_cast(float, g_parts[0]), root_gain = gradient * k.root_second_gain;
    return {decode(codes & 0xff, m_floor) * k.beta1 + gradient * k.first_gain,
            decode(codes >> 8 & 0xff, v_floor) * k.beta2 + root_gain * root_gain};
}

struct BlockFloors {
    Floor m_old, v_old, m_new, v_new;
};

// Of 2 kLanes elements: codes of both moments, the first moments' signs, and which second moments are not zero.
struct PairCodes {
    Shorts m, sign, v, some;
};
template <bool kSecondHalf>
[[gnu::always_inline]] inline PairCodes step_pair(const Gains& k, const BlockFloors& floors,
                                                  const Block<uint8_t>& block, const Random& random, int64_t at) {
    const Shorts m_code = widen(block.m);
    const Pair m_size = floors.m_old.decode(m_code & 0x7f), sign = interleave(Shorts{}, m_code << 8 & 0x8000);
    const Pair v_old = floors.v_old.decode(widen(block.v));
    const Pair master = load_master(block.hi, block.lo), gradient = load_pair(block.gradient);
    const Moments a = next_moments(k, m_size.a | sign.a, v_old.a, gradient.a);
    const Moments b = next_moments(k, m_size.b | sign.b, v_old.b, gradient.b);
    store_master({next_master(k, master.a, a), next_master(k, master.b, b)}, block.hi, block.lo);
    const Pair first = {as<Words>(a.first), as<Words>(b.first)}, second = {as<Words>(a.second), as<Words>(b.second)};
    const Pair word = random.at<kSecondHalf>(at);
    constexpr uint32_t kLow = (1u << kCut) - 1;
    const Floor &m = floors.m_new, &v = floors.v_new;
    return {m.codes({m.encode(first.a & ~kSign, word.a & kLow), m.encode(first.b & ~kSign, word.b & kLow)}),
            narrow(first),
            v.codes({v.encode(second.a, word.a >> (32 - kCut)), v.encode(second.b, word.b >> (32 - kCut))}),
            narrow(second)};
}
// Four vectors of elements. A second moment that is not zero stays so: a zero below a first moment that is not would
// make the step a leap.
template <bool kSecondHalf>
[[gnu::always_inline]] inline void step_codes(const Gains& k, const BlockFloors& floors, const Block<uint8_t>& block,
                                              const Random& random, int64_t at) {
    const PairCodes a = step_pair<kSecondHalf>(k, floors, block, random, at);
    const PairCodes b = step_pair<kSecondHalf>(k, floors, block.from(2 * kLanes), random, at + 2 * kLanes);
    const Bytes m = narrow(a.m, b.m), sign = narrow_signed(a.sign, b.sign);
    const Bytes v = narrow(a.v, b.v), some = narrow(a.some, b.some);
    store(block.m, in_order(min_of(m, Bytes{} + 0x7f) | (sign & 0x80)));
    store(block.v, in_order(max_of(v, min_of(some, Bytes{} + 1))));
}

struct Scales {
    float &m, &v;
};
void step_block(const AdamwCoefficients& c, const Gains& k, const Random& random, const Block<uint8_t>& block,
                const Scales& scales) {
    const uint32_t m_old = floor_of<kFirstOctaves>(scales.m), v_old = floor_of<kSecondOctaves>(scales.v);
    const Bounds bounds = bounds_of(c, block, m_old, v_old);
    scales.m = scale_of<kFirstOctaves>(bounds.first);
    scales.v = scale_of<kSecondOctaves>(bounds.second);
    const BlockFloors floors = {Floor(m_old), Floor(v_old), Floor(floor_of<kFirstOctaves>(scales.m)),
                                Floor(floor_of<kSecondOctaves>(scales.v))};
    for (int64_t i = 0; i < kHalfBlock; i += 4 * kLanes) {
        step_codes<false>(k, floors, block.from(i), random, i);
        step_codes<true>(k, floors, block.from(i + kHalfBlock), random, i);
    }
}

}  // namespace

void adamw_f32(const AdamwCoefficients& c, const AdamwNoise&, int64_t count, uint16_t* __restrict hi,
               int16_t* __restrict lo, const AdamwF32& moments, const float* __restrict gradient) {
    const AdamwCoefficients k = c;
    float* __restrict m = moments.m;
    float* __restrict v = moments.v;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const float g = gradient[i] * k.clip;
        const float first = m[i] * k.beta1 + g * k.one_minus_beta1;
        const float second = v[i] * k.beta2 + g * g * k.one_minus_beta2;
        m[i] = first;
        v[i] = second;
        const float p = __builtin_bit_cast(float, joined_master(hi[i], lo[i])) * k.decay -
                        k.step_size * (first / (std::sqrt(second) / k.root_bias2 + k.epsilon));
        const uint32_t u = __builtin_bit_cast(uint32_t, p);
        hi[i] = master_hi(u);
        lo[i] = master_lo(u);
    }
}

void adamw_bf16(const AdamwCoefficients& c, const AdamwNoise& noise, int64_t count, uint16_t* hi, int16_t* lo,
                const AdamwBf16& moments, const float* gradient) {
    const Gains k(c);
    const PhiloxKeys keys(noise.seed);
    for_blocks(Block<uint16_t>{hi, lo, moments.m, moments.v, gradient}, count,
               [&](const Block<uint16_t>& block, int64_t at) {
                   const Random random(keys, noise, at);
                   for (int64_t i = 0; i < kHalfBlock; i += 2 * kLanes) {
                       step_bf16<false>(k, block.from(i), random, i);
                       step_bf16<true>(k, block.from(i + kHalfBlock), random, i);
                   }
               });
}

void adamw_blocks(const AdamwCoefficients& c, const AdamwNoise& noise, int64_t count, uint16_t* hi, int16_t* lo,
                  const AdamwBlocks& moments, const float* gradient) {
    const Gains k(c);
    const PhiloxKeys keys(noise.seed);
    for_blocks(Block<uint8_t>{hi, lo, moments.m, moments.v, gradient}, count,
               [&](const Block<uint8_t>& block, int64_t at) {
                   const int64_t index = at / kAdamwBlock;
                   const Scales scales = {moments.m_scale[index], moments.v_scale[index]};
                   step_block(c, k, Random(keys, noise, at), block, scales);
               });
}

}  // namespace windlass::WINDLASS_ISA
