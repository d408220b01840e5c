// loops.h: the inner loops over panels, compiled once per instruction set; the same bits on each.
//
// A panel is kPanel columns of a matrix, one row after the other. Plain functions and plain types only: this header is
// read by objects of every instruction set.
#pragma once

#include <cstdint>

namespace windlass {

// Two vectors of AVX-512: enough sums side by side that additions need not wait for each other.
inline constexpr int64_t kPanel = 32;
// Sums that are folded at a time.
inline constexpr int64_t kPanelPairs = 16;

struct PanelLoops {
    // from [kPanel, kPanel] -> to, turned. Strides: numbers between rows.
    void (*turn)(const float* from, int64_t from_stride, float* to, int64_t to_stride);
    // to[o][t] = the sum of values[e] * from[source[e]][t] over e from begin[o] up to begin[o + 1], in that order.
    void (*sums)(const uint32_t* begin, const uint32_t* source, const float* values, const float* from, float* to,
                 int64_t count);
    // sums[row r + k] += the sum over t of a[row][t] b[column][t] + c[row][t] d[column][t], column: columns[row r + k];
    // first for each t, then by halves. r: nonzeros. All sums of `rows` rows.
    void (*sampled)(const uint32_t* columns, int64_t nonzeros, const float* a, const float* b, const float* c,
                    const float* d, float* sums, int64_t rows);
    // to[row][t] -= from[row][t]
    void (*subtract)(const float* from, float* to, int64_t rows);
    // The sum of a[row][t] b[row][t], in double: for each t over the rows, then by halves.
    double (*dot)(const float* a, const float* b, int64_t rows);
};

namespace baseline {
extern const PanelLoops kPanelLoops;
}
namespace avx2 {
extern const PanelLoops kPanelLoops;
}
namespace avx512 {
extern const PanelLoops kPanelLoops;
}

// Of the instruction set that this process computes with.
const PanelLoops& panel_loops();

}  // namespace windlass
