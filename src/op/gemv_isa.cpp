#include "op/gemv.h"

#include "base/vector_register.h"
#include "op/contraction.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef float Floats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef uint32_t Pairs __attribute__((vector_size(kVectorBytes), aligned(2), may_alias));
typedef int32_t Lanes __attribute__((vector_size(kVectorBytes)));

constexpr int kRowsAtOnce = 2;         // that share a pass over y
constexpr int64_t kAheadBytes = 2560;  // of a row that is asked for early: caches fill while products run (measured)
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
    return {shuffled(two.first, two.second, low), shuffled(two.first, two.second, high)};
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

// The upper half of the lanes is added to the lower half until one is left. In registers: a short row's sum is a good
// part of its product.
template <int kCount = static_cast<int>(kLanes)>
[[gnu::always_inline]] inline float sum_of_lanes(Floats all) {
    if constexpr (kCount == 1) {
        return all[0];
    } else {
        Lanes upper{};
        for (int i = 0; i < kCount / 2; ++i) upper[i] = i + kCount / 2;
        return sum_of_lanes<kCount / 2>(all + shuffled(all, all, upper));
    }
}

template <typename Number>
[[gnu::always_inline]] inline float dot(const Number* w, const Number* x, int64_t size) {
    constexpr int64_t kNumber = sizeof(Number), kSums = 4, kStep = kSums * kLanes;
    Floats sums[kSums] = {};
    int64_t i = 0;
    for (; i + kStep <= size; i += kStep) {
        ask_for(w + i + kAheadBytes / kNumber, kStep * kNumber);
        const Two a = load_two(w + i), b = load_two(w + i + 2 * kLanes);
        const Two p = load_two(x + i), q = load_two(x + i + 2 * kLanes);
        sums[0] += a.first * p.first;
        sums[1] += a.second * p.second;
        sums[2] += b.first * q.first;
        sums[3] += b.second * q.second;
    }
    if (i + 2 * kLanes <= size) {
        const Two a = load_two(w + i), p = load_two(x + i);
        sums[0] += a.first * p.first;
        sums[1] += a.second * p.second;
        i += 2 * kLanes;
    }
    float sum = sum_of_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; i < size; ++i) sum += load_one(w + i) * load_one(x + i);
    return sum;
}

template <typename Number>
void dots(const GemvMatrix<Number>& matrix, const Number* x, float* y) {
    for (int64_t n = 0; n < matrix.count; ++n) y[n] = dot(matrix.data + n * matrix.stride, x, matrix.size);
}

// y += kRows rows of the matrix, each times its number of x, in ascending order. The rows after them are asked for.
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

}  // namespace WINDLASS_ISA
}  // namespace windlass
