// As in lomo_isa.cpp: the same bits on every instruction set, sums in double and in one order.
#include "method/lomo/lomo_vector.h"

namespace windlass::WINDLASS_ISA {
namespace {

// lanes[(lane + c) mod kLomoLanes] += value(c), for all c below `count`.
template <typename Value>
[[gnu::always_inline]] inline void add_to_lanes(int64_t lane, int64_t count, double* __restrict lanes, Value value) {
    int64_t c = 0;
    for (; c < count && lane % kLomoLanes != 0; ++c, ++lane) lanes[lane] += value(c);
    for (; c + kLomoLanes <= count; c += kLomoLanes) {
        for (int64_t each = 0; each < kLomoLanes; ++each) lanes[each] += value(c + each);
    }
    for (int64_t each = 0; c < count; ++c, ++each) lanes[each] += value(c);
}

// Halves are added until one is left.
double sum_of_lanes(double* lanes) {
    for (int64_t half = kLomoLanes / 2; half > 0; half /= 2) {
        for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
}

}  // namespace

void adalomo_squares(float clip, int64_t rows, int64_t cols, const float* __restrict gradient,
                     double* __restrict row_sums, double* __restrict column_sums) {
    for (int64_t c = 0; c < cols; ++c) column_sums[c] = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const float* __restrict const g = gradient + row * cols;
        double lanes[kLomoLanes] = {};
        add_to_lanes(0, cols, lanes, [&](int64_t c) {
            const double x = g[c] * clip, square = x * x;
            column_sums[c] += square;
            return square;
        });
        row_sums[row] = sum_of_lanes(lanes);
    }
}

void adalomo_norms(float row_gain, const float* __restrict column_gains, int64_t lane, int64_t count,
                   const LomoWeights& weights, const float* __restrict gradient, double* step_lanes,
                   double* weight_lanes) {
    with_kept(weights, [&](auto kept) {
        double steps[kLomoLanes], sizes[kLomoLanes];
        __builtin_memcpy(steps, step_lanes, sizeof steps);
        __builtin_memcpy(sizes, weight_lanes, sizeof sizes);
        add_to_lanes(lane, count, steps, [&](int64_t c) {
            const double u = gradient[c] * row_gain * column_gains[c];
            return u * u;
        });
        add_to_lanes(lane, count, sizes, [&](int64_t c) {
            const double w = kept.read(c);
            return w * w;
        });
        __builtin_memcpy(step_lanes, steps, sizeof steps);
        __builtin_memcpy(weight_lanes, sizes, sizeof sizes);
    });
}

// W <- round((1 - a w) W - a u), u = (g row) column  (README.md)
void adalomo_step(const AdalomoStep& step, const LomoNoise& noise, int64_t count, const LomoWeights& weights,
                  const float* __restrict gradient) {
    with_kept(weights, [&](auto kept) {
        int64_t row = step.first / step.cols, col = step.first % step.cols;
        for_blocks(kept, noise, count, [&](int64_t at, int64_t end, const uint32_t* bits) {
            for (int64_t begin = at, some = 0; begin < end; begin += some) {
                some = end - begin < step.cols - col ? end - begin : step.cols - col;
                const float gain = step.row_gains[row];
                const float* __restrict const column_gains = step.column_gains + col;
                for (int64_t i = 0; i < some; ++i) {
                    const float u = gradient[begin + i] * gain * column_gains[i];
                    kept.write(begin + i, kept.read(begin + i) * step.decay - u, bits[begin - at + i]);
                }
                col += some;
                if (col == step.cols) col = 0, ++row;
            }
        });
    });
}

}  // namespace windlass::WINDLASS_ISA
