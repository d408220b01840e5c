// sparse_positions.h: the positions of a sparse matrix's numbers: a function of its shape and a seed, not a parameter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace windlass {

inline constexpr int64_t kSparseRowsMax = int64_t{1} << 24;
inline constexpr int64_t kSparseNonzerosMax = 64;

// A matrix [rows, cols], rows >= cols >= 1, with `nonzeros` numbers in each row, one of each lane. Lane k takes all
// rows in an order of its own (sparse_permutation.h), and the row at place p is in column p mod cols: so each column
// has floor(rows / cols) or ceil(rows / cols) rows of a lane. Where two lanes of a row meet in a column, that column
// has the sum of both numbers. Seed 0: row i is at place (i + k) mod rows; one lane over a square is the identity.
struct SparseShape {
    int64_t rows = 1, cols = 1, nonzeros = 1;
    uint64_t seed = 0;
    bool operator==(const SparseShape&) const = default;
};

// out[o] = the sum of values[value[e]] * in[source[e]] over e from begin[o] up to begin[o + 1], in that order.
struct SparseSums {
    std::vector<uint32_t> begin, source, value;
};

// Both directions as lists. Lanes go up; of one lane, a column's rows go by their places.
struct SparsePositions {
    SparseShape shape;
    SparseSums by_column;  // in: rows, out: columns
    SparseSums by_row;     // in: columns, out: rows
    bool operator==(const SparsePositions& other) const { return shape == other.shape; }
};

// Attributes share it. Aborts where the shape is none.
std::shared_ptr<const SparsePositions> sparse_positions(const SparseShape& shape);

}  // namespace windlass
