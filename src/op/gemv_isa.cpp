#include "op/gemv.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

// Products contract into sums: bits may follow the instruction set, never the team's size.
#pragma GCC optimize("fp-contract=fast")

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// One register. Outputs that share a pass over x, and rows that share one over y: narrow registers have more to do for
// a byte of the matrix.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kOutputsAtOnce = 1, kRowsAtOnce = 8;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kOutputsAtOnce = 2, kRowsAtOnce = 4;
#else
constexpr int kVectorBytes = 16, kOutputsAtOnce = 2, kRowsAtOnce = 4;
#endif
constexpr int64_t kLanes = kVectorBytes / 4;
typedef float Floats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint32_t Pairs __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));
typedef int32_t Lanes __attribute__((vector_size(kVectorBytes)));

constexpr int64_t kAheadBytes = 3072;  // of a row that is asked for early: caches fill while products run (measured)
constexpr int64_t kLineBytes = 64;
constexpr int kSecondLevel = 2;  // as __builtin_prefetch counts

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
[[gnu::always_inline]] inline Two stored_two(const float* from) {
    return {load(from), load(from + kLanes)};
}
[[gnu::always_inline]] inline void store_two(float* to, const Two& two) {
    store(to, two.first);
    store(to + kLanes, two.second);
}

// The two vectors' places in the order of the matrix.
[[gnu::always_inline]] inline Two in_order(const uint16_t*, const Two& two) {
    Lanes low{}, high{};
    for (int i = 0; i < kLanes; ++i) {
        low[i] = i / 2 + i % 2 * static_cast<int>(kLanes);
        high[i] = low[i] + static_cast<int>(kLanes) / 2;
    }
    return {__builtin_shuffle(two.first, two.second, low), __builtin_shuffle(two.first, two.second, high)};
}
[[gnu::always_inline]] inline Two in_order(const float*, const Two& two) {
    return two;
}

// Asks memory for numbers that are read a little later, into the second-level cache: the first has room for fewer lines
// that are under way. An address beyond the matrix does no harm.
[[gnu::always_inline]] inline void ask_for(const void* from, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kLineBytes)
        __builtin_prefetch(static_cast<const char*>(from) + line, 0, kSecondLevel);
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

// kOutputs rows of the matrix with x: each number of x is read once for all of them.
template <int kOutputs, typename Number>
[[gnu::always_inline]] inline void dot_rows(const Number* w, int64_t stride, int64_t size, const Number* x, float* y) {
    constexpr int64_t kNumber = sizeof(Number), kSums = 4, kStep = kSums * kLanes;
    Floats sums[kOutputs][kSums] = {};
    int64_t i = 0;
    for (; i + kStep <= size; i += kStep) {
        const Two p = load_two(x + i), q = load_two(x + i + 2 * kLanes);
        for (int row = 0; row < kOutputs; ++row) {
            const Number* const at = w + row * stride + i;
            ask_for(at + kOutputs * kAheadBytes / kNumber, kStep * kNumber);
            const Two a = load_two(at), b = load_two(at + 2 * kLanes);
            sums[row][0] += a.first * p.first;
            sums[row][1] += a.second * p.second;
            sums[row][2] += b.first * q.first;
            sums[row][3] += b.second * q.second;
        }
    }
    if (i + 2 * kLanes <= size) {
        const Two p = load_two(x + i);
        for (int row = 0; row < kOutputs; ++row) {
            const Two a = load_two(w + row * stride + i);
            sums[row][0] += a.first * p.first;
            sums[row][1] += a.second * p.second;
        }
        i += 2 * kLanes;
    }
    for (int row = 0; row < kOutputs; ++row) {
        float sum = sum_of(sums[row]);
        for (int64_t k = i; k < size; ++k) sum += load_one(w + row * stride + k) * load_one(x + k);
        y[row] = sum;
    }
}

template <typename Number>
void dots(const GemvMatrix<Number>& matrix, const Number* x, float* y) {
    int64_t n = 0;
    for (; n + kOutputsAtOnce <= matrix.count; n += kOutputsAtOnce)
        dot_rows<kOutputsAtOnce>(matrix.data + n * matrix.stride, matrix.stride, matrix.size, x, y + n);
    for (; n < matrix.count; ++n) dot_rows<1>(matrix.data + n * matrix.stride, matrix.stride, matrix.size, x, y + n);
}

// y += kRows rows of the matrix, each times its number of x, in ascending order. The rows behind them are asked for.
template <int kRows, typename Number>
[[gnu::always_inline]] inline void add_rows(const Number* w, int64_t stride, int64_t size, const Number* x, float* y) {
    constexpr int64_t kTwo = 2 * kLanes, kLine = kLineBytes / static_cast<int64_t>(sizeof(Number));
    float scales[kRows];
    for (int row = 0; row < kRows; ++row) scales[row] = load_one(x + row);
    int64_t n = 0;
    for (; n + kTwo <= size; n += kTwo) {
        Two sum = stored_two(y + n);
        for (int row = 0; row < kRows; ++row) {
            const Number* const at = w + row * stride + n;
            if (kTwo >= kLine || n % kLine == 0)
                ask_for(at + kRows * stride, kTwo * static_cast<int64_t>(sizeof(Number)));
            const Two two = load_two(at);
            sum.first += two.first * scales[row];
            sum.second += two.second * scales[row];
        }
        store_two(y + n, sum);
    }
    for (; n < size; ++n) {
        for (int row = 0; row < kRows; ++row) y[n] += load_one(w + row * stride + n) * scales[row];
    }
}

template <typename Number>
void combine(const GemvMatrix<Number>& matrix, const Number* x, float* y) {
    for (int64_t n = 0; n < matrix.size; ++n) y[n] = 0;
    int64_t i = 0;
    for (; i + kRowsAtOnce <= matrix.count; i += kRowsAtOnce)
        add_rows<kRowsAtOnce>(matrix.data + i * matrix.stride, matrix.stride, matrix.size, x + i, y);
    for (; i < matrix.count; ++i) add_rows<1>(matrix.data + i * matrix.stride, matrix.stride, matrix.size, x + i, y);
}

template <typename Number>
void add_parts(const float* parts, int64_t stride, int64_t count, float* y, int64_t size) {
    int64_t n = 0;
    for (; n + 2 * kLanes <= size; n += 2 * kLanes) {
        Two sum = stored_two(parts + n);
        for (int64_t part = 1; part < count; ++part) {
            const Two two = stored_two(parts + part * stride + n);
            sum.first += two.first;
            sum.second += two.second;
        }
        store_two(y + n, in_order(static_cast<const Number*>(nullptr), sum));
    }
    for (; n < size; ++n) {
        y[n] = parts[n];
        for (int64_t part = 1; part < count; ++part) y[n] += parts[part * stride + n];
    }
}

}  // namespace

extern const GemvKernels kGemvKernels = {
    .narrow = {dots<uint16_t>, combine<uint16_t>, add_parts<uint16_t>},
    .wide = {dots<float>, combine<float>, add_parts<float>},
};

#if defined(__AVX512F__)
#pragma GCC push_options
#pragma GCC target("avx512bf16")
namespace {

__m512bh load_bf16(const uint16_t* from) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

// Pairs of products at a time. The processor takes subnormal numbers for zero, as in all its products of bf16.
void bf16_dots(const GemvMatrix<uint16_t>& matrix, const uint16_t* x, float* y) {
    constexpr int64_t kTwo = 2 * kLanes, kSums = 4, kAhead = kAheadBytes / 2;
    for (int64_t n = 0; n < matrix.count; ++n) {
        const uint16_t* const w = matrix.data + n * matrix.stride;
        __m512 sums[kSums] = {};
        int64_t i = 0;
        for (; i + kSums * kTwo <= matrix.size; i += kSums * kTwo) {
            for (int64_t u = 0; u < kSums; ++u) {
                ask_for(w + i + u * kTwo + kAhead, kLineBytes);
                sums[u] = _mm512_dpbf16_ps(sums[u], load_bf16(w + i + u * kTwo), load_bf16(x + i + u * kTwo));
            }
        }
        for (; i + kTwo <= matrix.size; i += kTwo) {
            ask_for(w + i + kAhead, kLineBytes);
            sums[0] = _mm512_dpbf16_ps(sums[0], load_bf16(w + i), load_bf16(x + i));
        }
        const __mmask32 rest = (uint32_t{1} << (matrix.size - i)) - 1;
        if (rest != 0)
            sums[1] = _mm512_dpbf16_ps(sums[1], reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(rest, w + i)),
                                       reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi16(rest, x + i)));
        y[n] = sum_of(reinterpret_cast<const Floats*>(sums));
    }
}

}  // namespace
#pragma GCC pop_options

extern const GemvKernels kGemvBf16Kernels = {
    .narrow = {bf16_dots, combine<uint16_t>, add_parts<uint16_t>},
    .wide = {dots<float>, combine<float>, add_parts<float>},
};
#endif

}  // namespace WINDLASS_ISA
}  // namespace windlass
