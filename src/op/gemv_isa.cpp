#include "op/gemv.h"

// Products contract into sums: bits may follow the instruction set, never the team's size.
#pragma GCC optimize("fp-contract=fast")

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// One register. Rows of x that share a pass over the matrix: as many as there are registers for.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kRowsAtOnce = 4;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kRowsAtOnce = 2;
#else
constexpr int kVectorBytes = 16, kRowsAtOnce = 2;
#endif
constexpr int64_t kLanes = kVectorBytes / 4;
typedef float Floats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint32_t Pairs __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));

constexpr int kSums = 4;               // running sums of one dot product hide the latency of addition
constexpr int64_t kAheadBytes = 2048;  // of a row that is asked for early: caches fill while products run
constexpr int64_t kRowsAhead = 10;     // of a matrix that is read across its rows
constexpr int64_t kLineBytes = 64;

[[gnu::always_inline]] inline Floats load(const float* from) {
    return *reinterpret_cast<const Floats*>(from);
}
[[gnu::always_inline]] inline void store(float* to, Floats x) {
    *reinterpret_cast<Floats*>(to) = x;
}
[[gnu::always_inline]] inline float load_one(const float* from) {
    return *from;
}
[[gnu::always_inline]] inline float load_one(const uint16_t* from) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(*from) << 16);
}

// Two vectors of numbers that lie side by side in the matrix. Of bf16 the first has those of even index, the second
// those of odd index: two of them in a word of 32 bits cost one operation each.
struct Two {
    Floats first, second;
};
[[gnu::always_inline]] inline Two load_two(const uint16_t* from) {
    const Pairs pairs = *reinterpret_cast<const Pairs*>(from);
    return {reinterpret_cast<Floats>(pairs << 16), reinterpret_cast<Floats>(pairs & 0xffff0000u)};
}
[[gnu::always_inline]] inline Two load_two(const float* from) {
    return {load(from), load(from + kLanes)};
}

// The two vectors' places in the order of the matrix.
[[gnu::always_inline]] inline void store_in_order(const uint16_t*, const Two& two, float* to) {
    for (int64_t i = 0; i < kLanes; ++i) {
        to[2 * i] = two.first[i];
        to[2 * i + 1] = two.second[i];
    }
}
[[gnu::always_inline]] inline void store_in_order(const float*, const Two& two, float* to) {
    store(to, two.first);
    store(to + kLanes, two.second);
}

// Asks memory for numbers that are read a little later. An address beyond the matrix does no harm.
[[gnu::always_inline]] inline void ask_for(const void* from, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kLineBytes) __builtin_prefetch(static_cast<const char*>(from) + line);
}

template <typename Number>
void arrange(const Number* from, float* to, int64_t size) {
    int64_t i = 0;
    for (; i + 2 * kLanes <= size; i += 2 * kLanes) {
        const Two two = load_two(from + i);
        store(to + i, two.first);
        store(to + i + kLanes, two.second);
    }
    for (; i < size; ++i) to[i] = load_one(from + i);
}

[[gnu::always_inline]] inline float sum_of(const Floats* sums) {
    const Floats all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    float lanes[kLanes];
    store(lanes, all);
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
}

// One row of the matrix with kRows rows of x: each number of the matrix is read once for all of them.
template <int kRows, typename Number>
[[gnu::always_inline]] inline void dot_row(const Number* w, int64_t size, const float* x, int64_t stride, float* y,
                                           int64_t y_stride) {
    constexpr int64_t kNumber = sizeof(Number), kStep = kSums * kLanes;
    Floats sums[kRows][kSums] = {};
    int64_t i = 0;
    for (; i + kStep <= size; i += kStep) {
        ask_for(w + i + kAheadBytes / kNumber, kStep * kNumber);
        const Two a = load_two(w + i), b = load_two(w + i + 2 * kLanes);
        for (int row = 0; row < kRows; ++row) {
            const float* const at = x + row * stride + i;
            sums[row][0] += a.first * load(at);
            sums[row][1] += a.second * load(at + kLanes);
            sums[row][2] += b.first * load(at + 2 * kLanes);
            sums[row][3] += b.second * load(at + 3 * kLanes);
        }
    }
    if (i + 2 * kLanes <= size) {
        const Two a = load_two(w + i);
        for (int row = 0; row < kRows; ++row) {
            sums[row][0] += a.first * load(x + row * stride + i);
            sums[row][1] += a.second * load(x + row * stride + i + kLanes);
        }
        i += 2 * kLanes;
    }
    for (int row = 0; row < kRows; ++row) {
        float sum = sum_of(sums[row]);
        for (int64_t k = i; k < size; ++k) sum += load_one(w + k) * x[row * stride + k];
        y[row * y_stride] = sum;
    }
}

template <int kRows, typename Number>
void dots_of(const GemvMatrix<Number>& matrix, const GemvRows& x, const GemvRows& y, int64_t row) {
    for (int64_t n = 0; n < matrix.count; ++n)
        dot_row<kRows>(matrix.data + n * matrix.stride, matrix.size, x.data + row * x.stride, x.stride,
                       y.data + row * y.stride + n, y.stride);
}

template <typename Number>
void dots(const GemvMatrix<Number>& matrix, const GemvRows& x, const GemvRows& y) {
    int64_t row = 0;
    for (; row + kRowsAtOnce <= x.count; row += kRowsAtOnce) dots_of<kRowsAtOnce>(matrix, x, y, row);
    for (; row < x.count; ++row) dots_of<1>(matrix, x, y, row);
}

// kTwos times two vectors of one output row, down all rows of the matrix.
template <int kTwos, typename Number>
[[gnu::always_inline]] inline void add_columns(const GemvMatrix<Number>& matrix, int64_t begin, const float* x,
                                               float* y) {
    constexpr int64_t kNumber = sizeof(Number), kWidth = kTwos * 2 * kLanes;
    Two sums[kTwos] = {};
    for (int64_t i = 0; i < matrix.count; ++i) {
        const Number* const w = matrix.data + i * matrix.stride + begin;
        ask_for(w + kRowsAhead * matrix.stride, kWidth * kNumber);
        for (int u = 0; u < kTwos; ++u) {
            const Two two = load_two(w + u * 2 * kLanes);
            sums[u].first += two.first * x[i];
            sums[u].second += two.second * x[i];
        }
    }
    for (int u = 0; u < kTwos; ++u) store_in_order(matrix.data, sums[u], y + begin + u * 2 * kLanes);
}

template <typename Number>
void combine(const GemvMatrix<Number>& matrix, const GemvRows& x, const GemvRows& y) {
    constexpr int kTwos = kLanes == 16 ? 8 : 4;  // sums that registers hold
    for (int64_t row = 0; row < x.count; ++row) {
        const float* const from = x.data + row * x.stride;
        float* const to = y.data + row * y.stride;
        int64_t n = 0;
        for (; n + kTwos * 2 * kLanes <= matrix.size; n += kTwos * 2 * kLanes) add_columns<kTwos>(matrix, n, from, to);
        for (; n + kTwos * kLanes <= matrix.size; n += kTwos * kLanes) add_columns<kTwos / 2>(matrix, n, from, to);
        for (; n + 2 * kLanes <= matrix.size; n += 2 * kLanes) add_columns<1>(matrix, n, from, to);
        for (; n < matrix.size; ++n) {
            float sum = 0;
            for (int64_t i = 0; i < matrix.count; ++i) sum += load_one(matrix.data + i * matrix.stride + n) * from[i];
            to[n] = sum;
        }
    }
}

}  // namespace

extern const GemvKernels kGemvKernels = {
    .narrow = {arrange<uint16_t>, dots<uint16_t>, combine<uint16_t>},
    .wide = {arrange<float>, dots<float>, combine<float>},
};

}  // namespace WINDLASS_ISA
}  // namespace windlass
