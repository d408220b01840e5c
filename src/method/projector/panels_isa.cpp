// Only + and *, each rounded once (the build turns contraction off), in an order that the source gives.
#include "base/turn_vector.h"
#include "base/vector_register.h"
#include "method/projector/loops.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(kVectorBytes)));
constexpr int64_t kHalf = kPanel / 2;
constexpr int64_t kParts = kPanel / kLanes;  // registers of a panel's row, at most 8
static_assert(kPanelPairs == kHalf, "a sum's half row becomes one number as often as there are such rows");

[[gnu::always_inline]] inline const Floats* vectors(const float* from) {
    return reinterpret_cast<const Floats*>(from);
}

void turn(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    for (int64_t row = 0; row < kPanel; row += 4)
        for (int64_t col = 0; col < kPanel; col += 4)
            turn4(from + row * from_stride + col, from_stride, to + col * to_stride + row, to_stride);
}

void sums(const uint32_t* __restrict begin, const uint32_t* __restrict source, const float* __restrict values,
          const float* __restrict from, float* __restrict to, int64_t count) {
    for (int64_t o = 0; o < count; ++o) {
        Floats sum[kParts] = {};
        for (uint32_t e = begin[o]; e < begin[o + 1]; ++e) {
            const Floats* const x = vectors(from + static_cast<int64_t>(source[e]) * kPanel);
#pragma GCC unroll 8
            for (int64_t part = 0; part < kParts; ++part) sum[part] += values[e] * x[part];
        }
        __builtin_memcpy(to + o * kPanel, sum, sizeof sum);
    }
}

// Neighbours of a vector added, then those of a second one: half as many numbers of each.
[[gnu::always_inline]] inline void add_neighbours(const Floats& a, const Floats& b, Floats& to) {
#if defined(__AVX512F__)
    constexpr Ints kEven = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#elif defined(__AVX2__)
    constexpr Ints kEven = {0, 2, 4, 6, 8, 10, 12, 14};
#else
    constexpr Ints kEven = {0, 2, 4, 6};
#endif
    to = shuffled(a, b, kEven) + shuffled(a, b, kEven + 1);
}

// Of up to kPanelPairs neighbouring sums.
struct Sampled {
    const uint32_t* columns;
    int64_t nonzeros;
    const float *a, *b, *c, *d;

    static constexpr int64_t kHalfParts = kParts / 2;

    [[gnu::always_inline]] void pair(int64_t row, int64_t column, Floats* to) const {
        const Floats *const ar = vectors(a + row * kPanel), *const br = vectors(b + column * kPanel),
                            *const cr = vectors(c + row * kPanel), *const dr = vectors(d + column * kPanel);
#pragma GCC unroll 4
        for (int64_t low = 0; low < kHalfParts; ++low) {
            const int64_t high = low + kHalfParts;
            to[low] = (ar[low] * br[low] + cr[low] * dr[low]) + (ar[high] * br[high] + cr[high] * dr[high]);
        }
    }
    void add(int64_t first, int64_t count, float* sums) const {
        Floats of[kPanelPairs * kHalfParts] = {};
        int64_t row = first / nonzeros, k = first % nonzeros;
        for (int64_t p = 0; p < count; ++p) {
            pair(row, columns[first + p], of + p * kHalfParts);
            if (++k == nonzeros) k = 0, ++row;
        }
        for (int64_t left = kPanelPairs * kHalfParts / 2; left >= kHalfParts; left /= 2)
            for (int64_t p = 0; p < left; ++p) add_neighbours(of[2 * p], of[2 * p + 1], of[p]);
        for (int64_t p = 0; p < count; ++p) sums[first + p] += of[p / kLanes][p % kLanes];
    }
};

void sampled(const uint32_t* columns, int64_t nonzeros, const float* a, const float* b, const float* c, const float* d,
             float* sums, int64_t rows) {
    const Sampled of = {columns, nonzeros, a, b, c, d};
    const int64_t pairs = rows * nonzeros, whole = pairs - pairs % kPanelPairs;
    for (int64_t first = 0; first < whole; first += kPanelPairs) of.add(first, kPanelPairs, sums);
    if (whole < pairs) of.add(whole, pairs - whole, sums);
}

void subtract(const float* __restrict from, float* __restrict to, int64_t rows) {
#pragma omp simd
    for (int64_t i = 0; i < rows * kPanel; ++i) to[i] -= from[i];
}

// A fixed tree over the columns of a panel: one order of sums, however wide the registers are.
double dot(const float* a, const float* b, int64_t rows) {
    double sum[kPanel] = {};
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t t = 0; t < kPanel; ++t)
            sum[t] += static_cast<double>(a[row * kPanel + t]) * static_cast<double>(b[row * kPanel + t]);
    for (int64_t left = kPanel / 2; left > 0; left /= 2)
        for (int64_t t = 0; t < left; ++t) sum[t] += sum[t + left];
    return sum[0];
}

}  // namespace

extern const PanelLoops kPanelLoops = {turn, sums, sampled, subtract, dot};

}  // namespace WINDLASS_ISA
}  // namespace windlass
