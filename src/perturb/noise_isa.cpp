// Only + - * sqrt, each rounded once (the build turns contraction off), and integers: the same bits on every
// instruction set.
#include "perturb/noise_kernel.h"

#include "base/philox_vector.h"
#include "perturb/gaussian_vector.h"
#include "perturb/moments_vector.h"
#include "perturb/nf4_vector.h"
#include "perturb/stored_vector.h"
#include "tensor/master_vector.h"

namespace windlass::WINDLASS_ISA {
namespace {

// Work goes tile by tile, small enough for the sums to stay in the nearest cache, and no smaller than what a run of
// counters serves. Tiles begin at multiples of their size in the model, wherever the run begins.
constexpr int64_t kTile = 1024, kSignTile = 4096;
constexpr int64_t kSignsPerWord = 32, kRoundingsPerRun = 2 * kPhiloxRun;
static_assert(kSignTile == kPhiloxRun * kSignsPerWord && kTile % kRoundingsPerRun == 0);

// The elements first + [begin, end) of the model.
struct Tile {
    int64_t first, begin, end;
};

template <typename T>
[[gnu::always_inline]] inline T least(T a, T b) {
    return a < b ? a : b;
}
template <typename T>
[[gnu::always_inline]] inline T greatest(T a, T b) {
    return a > b ? a : b;
}

// Calls body(tile, where the tile's elements begin in the run).
template <typename Body>
[[gnu::always_inline]] inline void for_tiles(const NoiseRun& run, Body body) {
    const int64_t size = run.kind == NoiseKind::rademacher ? kSignTile : kTile;
    const int64_t end = run.element + run.count;
    for (int64_t at = run.element; at < end;) {
        const int64_t first = at / size * size, stop = least(first + size, end);
        body(Tile{first, at - first, stop - first}, at - run.element);
        at = stop;
    }
}

[[gnu::always_inline]] inline uint64_t block_of(uint64_t kind, int64_t index) {
    return kind << kNoiseKindShift | static_cast<uint64_t>(index);
}

// sums[i] += c z_i, i in the tile. Sums have room for a whole tile and are written beyond the elements asked for.
void add_gaussian(const NoiseRun& run, uint64_t kind, const NoiseTerm& term, const Tile& tile, float* sums) {
    alignas(64) uint32_t words[kPhiloxRun];
    const PhiloxKeys keys(run.seed);
    const float c = term.coefficient;
    for (int64_t at = tile.begin / kPhiloxRun * kPhiloxRun; at < tile.end; at += kPhiloxRun) {
        philox_run(keys, {block_of(kind, (tile.first + at) / 4), kNoiseStream, term.step, term.direction}, words);
        for (int64_t i = 0; i < kPhiloxRun; i += 2 * kLanes) {
            Floats low, high;
            gaussian_of(words + i, low, high);
            Floats* const to = reinterpret_cast<Floats*>(sums + at + i);
            to[0] += c * low;
            to[1] += c * high;
        }
    }
}

// Bit b of word w, counted through the counters, is the sign of element 32 w + b.
void add_signs(const NoiseRun& run, const NoiseTerm& term, const Tile& tile, float* sums) {
    alignas(64) uint32_t words[kPhiloxRun];
    philox_run(PhiloxKeys(run.seed),
               {block_of(1, tile.first / (4 * kSignsPerWord)), kNoiseStream, term.step, term.direction}, words);
    const Floats plus = Floats{} + term.coefficient, minus = Floats{} - term.coefficient;
    Ints bit = {};
    for (int64_t lane = 0; lane < kLanes; ++lane) bit[lane] = static_cast<int32_t>(1u << lane);
    for (int64_t at = tile.begin / kSignsPerWord; at * kSignsPerWord < tile.end; ++at) {
        const Ints word = Ints{} + static_cast<int32_t>(words[at]);
        Floats* const to = reinterpret_cast<Floats*>(sums + at * kSignsPerWord);
        for (int64_t i = 0; i < kSignsPerWord / kLanes; ++i) {
            const Ints mask = bit << static_cast<int32_t>(i * kLanes);
            to[i] += (word & mask) == mask ? minus : plus;
        }
    }
}

// to[i] += u_k v_k[i] for the ranks k, one after the other; two in one pass over the sums.
void add_ranks(const float* u, int64_t u_stride, const float* v, int64_t v_stride, int64_t rank, float c, int64_t count,
               float* __restrict to) {
    int64_t k = 0;
    for (; k + 1 < rank; k += 2) {
        const float p = c * u[k * u_stride], q = c * u[(k + 1) * u_stride];
        const float* __restrict const a = v + k * v_stride;
        const float* __restrict const b = a + v_stride;
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) to[i] = (to[i] + p * a[i]) + q * b[i];
    }
    if (k == rank) return;
    const float p = c * u[k * u_stride];
    const float* __restrict const last = v + k * v_stride;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) to[i] += p * last[i];
}

// Row by row, rank by rank: z_rc = sum over k of u_kr v_kc, with the coefficient in u's factor.
void add_low_rank(const NoiseRun& run, const NoiseTerm& term, const Tile& tile, float* sums) {
    const int64_t shift = run.first + tile.first - run.element;
    for (int64_t at = tile.begin; at < tile.end;) {
        const int64_t row = (at + shift) / run.cols, col = (at + shift) % run.cols;
        const int64_t count = least(tile.end - at, run.cols - col);
        add_ranks(term.u + row, run.rows, term.v + col, run.cols, run.rank, term.coefficient, count, sums + at);
        at += count;
    }
}

void add_term(const NoiseRun& run, const NoiseTerm& term, const Tile& tile, float* sums) {
    switch (run.kind) {
        case NoiseKind::gaussian:
            return add_gaussian(run, 0, term, tile, sums);
        case NoiseKind::rademacher:
            return add_signs(run, term, tile, sums);
        case NoiseKind::low_rank:
            return add_low_rank(run, term, tile, sums);
        case NoiseKind::left_factor:
            return add_gaussian(run, 2, term, tile, sums);
        case NoiseKind::right_factor:
            return add_gaussian(run, 3, term, tile, sums);
    }
}

// From +0, so that no sum is -0: a weight less a sum of zeros then keeps its bits.
void clear(const Tile& tile, float* sums) {
    const int64_t begin = tile.begin / kPhiloxRun * kPhiloxRun;
    __builtin_memset(sums + begin, 0, static_cast<uint64_t>(tile.end - begin + kPhiloxRun) * sizeof(float));
}

// What a tile needs, with room after the sums for the last run of counters.
struct Room {
    alignas(64) float weights[kSignTile];
    alignas(64) float sums[kSignTile + kPhiloxRun];
    alignas(64) float before[kSignTile];  // the weights that a masked step begins with
};

void one_term(const NoiseRun& run, const NoiseTerm& term, const Tile& tile, float* sums) {
    clear(tile, sums);
    add_term(run, term, tile, sums);
}

template <typename Type>
void read(Type type, const void* from, int64_t count, float* __restrict x) {
    const auto* __restrict const stored = static_cast<const typename Type::Element*>(from);
    const int64_t begin = decode_vectors(type, stored, count, x);
#pragma omp simd
    for (int64_t i = begin; i < count; ++i) x[i] = type.decode(stored[i]);
}

// Numbers of the type.
template <typename Type>
void write(Type type, const float* __restrict x, int64_t count, void* to) {
    auto* __restrict const stored = static_cast<typename Type::Element*>(to);
    const int64_t begin = encode_vectors(type, x, count, stored);
#pragma omp simd
    for (int64_t i = begin; i < count; ++i) stored[i] = type.encode(x[i]);
}

template <typename Type>
void write_nearest(Type, const float* __restrict x, int64_t count, void* to) {
    auto* __restrict const stored = static_cast<typename Type::Element*>(to);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) stored[i] = Type::encode(Type::nearest(x[i]));
}

// x <- random((x - sum) - decay x), each operation rounded to f32 first. No decay is no product: 0 x may be -0.
typedef uint16_t RandomHalf __attribute__((may_alias));
template <typename Type, bool kDecays>
void subtract(Type type, float decay, const RandomHalf* __restrict random, int64_t count, const float* __restrict sums,
              float* __restrict x) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        const float moved = kDecays ? (x[i] - sums[i]) - decay * x[i] : x[i] - sums[i];
        x[i] = type.random(moved, random[i]);
    }
}

// Sixteen random bits an element, from counters of eight: half h of the words, counted through the counters, is element
// h's. Numbers that need none are not given any.
template <typename Type>
void subtract_and_round(Type type, const NoiseRun& run, const NoiseStep& step, const Tile& tile, const float* sums,
                        float* x) {
    alignas(64) uint32_t words[kPhiloxRun] = {};
    const auto* const random = reinterpret_cast<const RandomHalf*>(words);
    const PhiloxKeys keys(run.seed);
    for (int64_t at = tile.begin / kRoundingsPerRun * kRoundingsPerRun; at < tile.end; at += kRoundingsPerRun) {
        if (Type::kRounds)
            philox_run(keys, {block_of(1, (tile.first + at) / 8), kNoiseRoundingStream, step.step, 0}, words);
        const int64_t begin = greatest(tile.begin, at), count = least(tile.end, at + kRoundingsPerRun) - begin;
        const auto loop = step.decay == 0.0f ? subtract<Type, false> : subtract<Type, true>;
        loop(type, step.decay, random + (begin - at), count, sums + begin, x + begin);
    }
}

// S from moments: what each step of the window found in turn, and its shares of them. From +0, as the sums.
void sum_moments(const NoiseRun& run, const NoiseStep& step, const Tile& tile, Room& room) {
    alignas(64) float first[kSignTile + kPhiloxRun], second[kSignTile + kPhiloxRun];
    clear(tile, first);
    clear(tile, second);
    const NoiseTerm* term = step.terms;
    for (int64_t index = 0; index < step.moment_count; ++index) {
        const NoiseMoment& moment = step.moments[index];
        clear(tile, room.sums);
        for (int64_t d = 0; d < moment.term_count; ++d) add_term(run, *term++, tile, room.sums);
        add_to_moments(moment, tile.begin, tile.end, room.sums, first, second);
    }
    divide_moments(step.epsilon, tile.begin, tile.end, first, second, room.sums);
}

// What was larger than the limit keeps its bits, and is not probed.
void mask(float limit, const float* __restrict before, int64_t count, float* __restrict x) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) x[i] = __builtin_fabsf(before[i]) <= limit ? x[i] : before[i];
}
void mask_sums(float limit, const float* __restrict weights, int64_t count, float* __restrict sums) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sums[i] = __builtin_fabsf(weights[i]) <= limit ? sums[i] : 0.0f;
}

void take_step(const NoiseRun& run, const NoiseStep& step, const NoisePass& pass, const Tile& tile, Room& room) {
    if (step.moments != nullptr) {
        sum_moments(run, step, tile, room);
    } else {
        clear(tile, room.sums);
        for (int64_t d = 0; d < step.term_count; ++d) add_term(run, step.terms[d], tile, room.sums);
    }
    const int64_t count = tile.end - tile.begin;
    float *const x = room.weights + tile.begin, *const before = room.before + tile.begin;
    if (pass.masks) __builtin_memcpy(before, x, static_cast<uint64_t>(count) * sizeof(float));
    with_type(pass.updated == nullptr ? WeightType::f32 : pass.type, pass.scale_exponent,
              [&](auto type) { subtract_and_round(type, run, step, tile, room.sums, room.weights); });
    if (pass.masks) mask(pass.limit, before, count, x);
}

template <typename Type>
void add(const float* __restrict x, const float* __restrict y, int64_t count, void* to) {
    auto* __restrict const stored = static_cast<typename Type::Element*>(to);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) stored[i] = Type::encode(Type::nearest(x[i] + y[i]));
}

template <typename Type>
void add_and_subtract(const float* __restrict x, const float* __restrict y, int64_t count, void* plus, void* minus) {
    auto* __restrict const up = static_cast<typename Type::Element*>(plus);
    auto* __restrict const down = static_cast<typename Type::Element*>(minus);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
        up[i] = Type::encode(Type::nearest(x[i] + y[i]));
        down[i] = Type::encode(Type::nearest(x[i] - y[i]));
    }
}

template <typename Type>
void subtract_from(const float* __restrict x, const float* __restrict y, int64_t count, void* to) {
    auto* __restrict const stored = static_cast<typename Type::Element*>(to);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) stored[i] = Type::encode(Type::nearest(x[i] - y[i]));
}

// The array's element `at`; null stays null.
template <typename Type>
void* from(void* array, int64_t at) {
    return array == nullptr ? nullptr : static_cast<typename Type::Element*>(array) + at;
}

template <typename Type>
void write_probes(const NoisePass& pass, int64_t at, int64_t count, const float* x, const float* sums) {
    void *plus = from<Type>(pass.plus, at), *minus = from<Type>(pass.minus, at);
    if (plus != nullptr && minus != nullptr) return add_and_subtract<Type>(x, sums, count, plus, minus);
    if (plus != nullptr) add<Type>(x, sums, count, plus);
    if (minus != nullptr) subtract_from<Type>(x, sums, count, minus);
}

}  // namespace

void noise_direction(const NoiseRun& run, const NoiseTerm& term, WeightType type, void* out) {
    Room room;
    for_tiles(run, [&](const Tile& tile, int64_t at) {
        one_term(run, term, tile, room.sums);
        const int64_t count = tile.end - tile.begin;
        const float* const z = room.sums + tile.begin;
        with_plain_type(type, [&](auto kind) { write_nearest(kind, z, count, from<decltype(kind)>(out, at)); });
    });
}

void noise_pass(const NoiseRun& run, const NoisePass& pass) {
    Room room;
    for_tiles(run, [&](const Tile& tile, int64_t at) {
        const int64_t count = tile.end - tile.begin;
        float* const x = room.weights + tile.begin;
        if (pass.type == WeightType::nf4) nf4_decode(pass.weights, pass.skip + at, count, x);
        with_type(pass.type, pass.scale_exponent, [&](auto type) {
            typedef decltype(type) Type;
            read(type, static_cast<const typename Type::Element*>(pass.weights) + at, count, x);
        });
        for (int64_t s = 0; s < pass.step_count; ++s) take_step(run, pass.steps[s], pass, tile, room);
        with_type(pass.type, pass.scale_exponent, [&](auto type) {
            if (pass.updated != nullptr) write(type, x, count, from<decltype(type)>(pass.updated, at));
        });
        if (pass.plain != nullptr)
            with_plain_type(pass.probe_type,
                            [&](auto kind) { write_nearest(kind, x, count, from<decltype(kind)>(pass.plain, at)); });
        if (pass.probe == nullptr) return;
        one_term(run, *pass.probe, tile, room.sums);
        // As the step will be masked that applies what this probe finds: by what is stored.
        const bool is_open = pass.updated == nullptr && pass.step_count > 0;
        if (pass.masks) mask_sums(pass.limit, is_open ? room.before + tile.begin : x, count, room.sums + tile.begin);
        with_plain_type(pass.probe_type,
                        [&](auto kind) { write_probes<decltype(kind)>(pass, at, count, x, room.sums + tile.begin); });
    });
}

void nf4_copy(const void* blocks, int64_t count, WeightType type, void* out) {
    if (type == WeightType::f32) return nf4_decode(blocks, 0, count, static_cast<float*>(out));
    alignas(64) float numbers[kTile];
    for (int64_t at = 0; at < count; at += kTile) {
        const int64_t some = least(kTile, count - at);
        nf4_decode(blocks, at, some, numbers);
        auto* __restrict const to = static_cast<uint16_t*>(out) + at;
#pragma omp simd
        for (int64_t i = 0; i < some; ++i) to[i] = master_hi(bits_of(numbers[i]));
    }
}

}  // namespace windlass::WINDLASS_ISA
