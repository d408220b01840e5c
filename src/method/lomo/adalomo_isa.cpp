// As in lomo_isa.cpp: the same bits on every instruction set, sums in double and in one order.
#include "base/vector_register.h"
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

// kLomoLanes running sums in registers.
class LaneSums {
  public:
    explicit LaneSums(const double* lanes) { __builtin_memcpy(sums_, lanes, sizeof sums_); }
    [[gnu::always_inline]] void add_squares(const float* x) {
        for (int64_t part = 0; part < kParts; ++part) {
            Doubles wide;
            widen(x + part * kWide, wide);
            sums_[part] += wide * wide;
        }
    }
    void store(double* lanes) const { __builtin_memcpy(lanes, sums_, sizeof sums_); }

  private:
    typedef float Singles __attribute__((vector_size(kVectorBytes / 2)));
    typedef double Doubles __attribute__((vector_size(kVectorBytes)));
    static constexpr int64_t kWide = kLanes / 2, kParts = kLomoLanes / kWide;
    // Compilers widen eight numbers in halves.
    [[gnu::always_inline]] static void widen(const float* x, Doubles& wide) {
#if defined(__AVX512F__)
        wide = reinterpret_cast<Doubles>(_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x)));
#else
        Singles singles;
        __builtin_memcpy(&singles, x, sizeof singles);
        wide = __builtin_convertvector(singles, Doubles);
#endif
    }
    Doubles sums_[kParts];
};

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
        const auto add_one = [&](int64_t c, int64_t at) {
            const double u = gradient[c] * row_gain * column_gains[c], w = kept.read(c);
            step_lanes[at] += u * u;
            weight_lanes[at] += w * w;
        };
        int64_t c = 0;
        for (; c < count && (lane + c) % kLomoLanes != 0; ++c) add_one(c, (lane + c) % kLomoLanes);
        LaneSums steps(step_lanes), sizes(weight_lanes);
        for (; c + kLomoLanes <= count; c += kLomoLanes) {
            alignas(64) float u[kLomoLanes], w[kLomoLanes];
            for (int64_t i = 0; i < kLomoLanes; ++i) {
                u[i] = gradient[c + i] * row_gain * column_gains[c + i];
                w[i] = kept.read(c + i);
            }
            steps.add_squares(u);
            sizes.add_squares(w);
        }
        steps.store(step_lanes);
        sizes.store(weight_lanes);
        for (int64_t at = 0; c < count; ++c, ++at) add_one(c, at);
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
