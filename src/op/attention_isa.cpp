#include "op/attention.h"

#include "op/exp_vector.h"
#include "op/loops_inline.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

constexpr float kLog2E = 1.44269504f;

// Of the exponential's series, for weights of this type.
template <typename Weight>
constexpr int kTerms = sizeof(Weight) == 2 ? 5 : 7;

// Calls body(i, inside) for each vector of a row that the range touches; `inside` hides the lanes outside of it, and
// costs nothing where there are none. Then zero(i) for the other vectors of the row.
template <typename Body, typename Zero>
[[gnu::always_inline]] inline void for_vectors(SeenRange range, int64_t size, Body body, Zero zero) {
    const int64_t first = range.begin / kLanes * kLanes;
    const auto inside_of = [=](int64_t i) {
        const Ints lane = kLaneIndex + static_cast<int32_t>(i);
        return [=](Floats x, Floats otherwise) { return ((lane >= range.begin) & (lane < range.end)) ? x : otherwise; };
    };
    const auto all = [](Floats x, Floats) { return x; };
    int64_t i = 0;
    for (; i < first && i < size; i += kLanes) zero(i);
    if (i < range.end && i < range.begin) {
        body(i, inside_of(i));
        i += kLanes;
    }
    for (; i + kLanes <= range.end; i += kLanes) body(i, all);
    if (i < range.end) {
        body(i, inside_of(i));
        i += kLanes;
    }
    for (; i < size; i += kLanes) zero(i);
}

constexpr Floats kNone = {};
constexpr Floats kLowest = kNone - __builtin_inff();

// Two running maxima hide the latency of comparing.
[[gnu::always_inline]] inline float greatest_score(const float* scores, SeenRange range, int64_t size) {
    Floats even = kLowest, odd = kLowest;
    for_vectors(
        range, size,
        [&](int64_t i, auto inside) {
            const Floats x = greater_of(inside(load(scores + i), kLowest), even);
            even = odd;
            odd = x;
        },
        [](int64_t) {});
    return greatest_lane(greater_of(even, odd));
}

// A row of a tile under the greatest of its scores so far. The maximum goes before the scale does: the scores that
// count most lose least.
template <typename Weight>
[[gnu::always_inline]] inline float softmax_row(const float* scores, SeenRange range, int64_t size, float scale,
                                                RunningSoftmax& state, Weight* weights) {
    const float tile_max = greatest_score(scores, range, size);
    const float max = state.max > tile_max ? state.max : tile_max;
    Floats sums = kNone;
    for_vectors(
        range, size,
        [&](int64_t i, auto inside) {
            const Floats weight = inside(exp2_of<kTerms<Weight>>((load(scores + i) - max) * scale), kNone);
            sums += weight;
            store(weights + i, weight);
        },
        [&](int64_t i) { store(weights + i, kNone); });
    const float factor = state.sum == 0 ? 0 : exp2_of<7>((kNone + (state.max - max)) * scale)[0];
    state.sum = state.sum * factor + sum_of_lanes(sums);
    state.max = max;
    return factor;
}

// Of exponents, as powers of two.
[[gnu::always_inline]] inline float exponent_scale(const ScoreTile& tile) {
    return tile.softcap == 0 ? tile.scale * kLog2E : kLog2E;
}

[[gnu::always_inline]] inline Floats slope_of_cap(Floats score, float softcap) {
    const Floats t = score * (1.0f / softcap);
    return 1.0f - t * t;
}

template <typename Weight>
void softmax(const ScoreTile& tile, RunningSoftmax* states, float* factors, Weight* weights) {
    const float scale = exponent_scale(tile);
    for (int64_t row = 0; row < tile.rows; ++row) {
        const SeenRange range = tile.seen[row];
        const int64_t at = row * tile.stride;
        if (range.begin < range.end) {
            factors[row] = softmax_row(tile.scores + at, range, tile.stride, scale, states[row], weights + at);
        } else {
            factors[row] = 1;
            for (int64_t i = 0; i < tile.stride; i += kLanes) store(weights + at + i, kNone);
        }
    }
}

template <typename Weight, bool kCapped>
[[gnu::always_inline]] inline void backward_of(const ScoreTile& tile, const float* dp, const float* log_sum,
                                               const float* delta, Weight* p, Weight* ds) {
    const float scale = exponent_scale(tile);
    for (int64_t row = 0; row < tile.rows; ++row) {
        const int64_t at = row * tile.stride;
        for_vectors(
            tile.seen[row], tile.stride,
            [&](int64_t i, auto inside) {
                const Floats score = load(tile.scores + at + i), power = score * scale - load(log_sum + i) * kLog2E;
                const Floats weight = inside(exp2_of<kTerms<Weight>>(power), kNone);
                Floats change = load(dp + at + i) - load(delta + i);
                if constexpr (kCapped) change *= slope_of_cap(score, tile.softcap);
                store(p + at + i, weight);
                store(ds + at + i, inside(weight * tile.scale * change, kNone));
            },
            [&](int64_t i) {
                store(p + at + i, kNone);
                store(ds + at + i, kNone);
            });
    }
}

template <typename Weight, bool kCapped>
[[gnu::always_inline]] inline void tangent_of(const ScoreTile& tile, const float* changes, const float* log_sum,
                                              Weight* p, Weight* dp, float* sums) {
    const float scale = exponent_scale(tile);
    for (int64_t row = 0; row < tile.rows; ++row) {
        const int64_t at = row * tile.stride;
        Floats sum = kNone;
        for_vectors(
            tile.seen[row], tile.stride,
            [&](int64_t i, auto inside) {
                const Floats score = load(tile.scores + at + i), power = score * scale - log_sum[row] * kLog2E;
                const Floats weight = inside(exp2_of<kTerms<Weight>>(power), kNone);
                Floats change = inside(weight * tile.scale * load(changes + at + i), kNone);
                if constexpr (kCapped) change = inside(change * slope_of_cap(score, tile.softcap), kNone);
                store(p + at + i, weight);
                store(dp + at + i, change);
                sum += change;
            },
            [&](int64_t i) {
                store(p + at + i, kNone);
                store(dp + at + i, kNone);
            });
        sums[row] += sum_of_lanes(sum);
    }
}

template <typename Weight>
void backward(const ScoreTile& tile, const float* dp, const float* log_sum, const float* delta, Weight* p, Weight* ds) {
    if (tile.softcap == 0)
        backward_of<Weight, false>(tile, dp, log_sum, delta, p, ds);
    else
        backward_of<Weight, true>(tile, dp, log_sum, delta, p, ds);
}

template <typename Weight>
void tangent(const ScoreTile& tile, const float* changes, const float* log_sum, Weight* p, Weight* dp, float* sums) {
    if (tile.softcap == 0)
        tangent_of<Weight, false>(tile, changes, log_sum, p, dp, sums);
    else
        tangent_of<Weight, true>(tile, changes, log_sum, p, dp, sums);
}

template <typename Number>
void write_rows(const float* from, const float* factors, bool add, Rows<Number> to) {
    for (int64_t row = 0; row < to.count; ++row, from += to.size) {
        Number* const target = to.data + row * to.stride;
        const float factor = factors == nullptr ? 1.0f : factors[row];
        int64_t i = 0;
        for (; i + kLanes <= to.size; i += kLanes) {
            const Floats x = load(from + i) * factor;
            store(target + i, add ? load(target + i) + x : x);
        }
        for (; i < to.size; ++i) store_one(target + i, from[i] * factor + (add ? load_one(target + i) : 0.0f));
    }
}

template <typename Number>
void dots(Rows<const Number> x, Rows<const Number> y, float* products) {
    for (int64_t row = 0; row < x.count; ++row) {
        const Number *a = x.data + row * x.stride, *b = y.data + row * y.stride;
        Floats sums = kNone;
        int64_t i = 0;
        for (; i + kLanes <= x.size; i += kLanes) sums += load(a + i) * load(b + i);
        float sum = sum_of_lanes(sums);
        for (; i < x.size; ++i) sum += load_one(a + i) * load_one(b + i);
        products[row] = sum;
    }
}

template <typename Number>
int64_t first_fault(Rows<const Number> x) {
    for (int64_t row = 0; row < x.count; ++row) {
        const Number* const numbers = x.data + row * x.stride;
        Floats zeros = kNone;  // x - x: zero, or NaN
        int64_t i = 0;
        for (; i + kLanes <= x.size; i += kLanes) zeros += load(numbers + i) - load(numbers + i);
        float zero = sum_of_lanes(zeros);
        for (; i < x.size; ++i) zero += load_one(numbers + i) - load_one(numbers + i);
        if (zero != 0) return row;
    }
    return x.count;
}

template <typename Number>
void mix(const Number* weights, Rows<const Number> rows, float* sums) {
    for (int64_t row = 0; row < rows.count; ++row) {
        const Number* from = rows.data + row * rows.stride;
        const float weight = load_one(weights + row);
        if (weight == 0) continue;  // masked
        int64_t i = 0;
        for (; i + kLanes <= rows.size; i += kLanes) store(sums + i, load(sums + i) + load(from + i) * weight);
        for (; i < rows.size; ++i) sums[i] += load_one(from + i) * weight;
    }
}

void add_scaled(float scale, const float* x, float* y, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

void scale_all(float scale, float* x, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] *= scale;
}

void cap(float scale, float softcap, float* x, int64_t n) {
    const float inner = scale / softcap;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) x[i] = softcap * tanh_float(inner * x[i]);
}

}  // namespace

extern const AttentionLoops kAttentionLoops = {
    .narrow = {softmax<uint16_t>, backward<uint16_t>, tangent<uint16_t>, write_rows<uint16_t>, dots<uint16_t>,
               first_fault<uint16_t>, mix<uint16_t>},
    .wide = {softmax<float>, backward<float>, tangent<float>, write_rows<float>, dots<float>, first_fault<float>,
             mix<float>},
    .add_scaled = add_scaled,
    .scale = scale_all,
    .cap = cap,
};

}  // namespace WINDLASS_ISA
}  // namespace windlass
