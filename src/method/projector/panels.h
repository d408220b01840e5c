// panels.h: matrices cut into panels of kPanel columns, and their products with sparse matrices.
#pragma once

#include <span>

#include "base/math.h"
#include "method/projector/loops.h"
#include "method/projector/projector.h"

namespace windlass {

// A matrix [rows, cols]: panels one after the other, each of kPanel columns, one row after the other. Rows and
// columns are padded with zeros to whole panels, so that it can be turned.
struct Panels {
    float* data = nullptr;
    int64_t rows = 0;
    int64_t cols = 0;

    int64_t count() const { return div_up(cols, kPanel); }
    int64_t panel_numbers() const { return round_up(rows, kPanel) * kPanel; }
    int64_t numbers() const { return count() * panel_numbers(); }
    float* panel(int64_t index) const { return data + index * panel_numbers(); }
    // The square of kPanel rows and columns.
    float* square(int64_t row_panel, int64_t col_panel) const { return panel(col_panel) + row_panel * kPanel * kPanel; }
};

// A sparse matrix with its numbers in the order of the lists.
struct SparseValues {
    const SparsePositions* positions = nullptr;
    const float* by_row = nullptr;
    const float* by_column = nullptr;

    // to = A^T from, to = A from: of one panel, from and to with as many rows as A has rows and columns, or columns
    // and rows.
    void project(const float* from, float* to) const { multiply(positions->by_column, by_column, from, to); }
    void expand(const float* from, float* to) const { multiply(positions->by_row, by_row, from, to); }

  private:
    static void multiply(const SparseSums& sums, const float* values, const float* from, float* to) {
        panel_loops().sums(sums.begin.data(), sums.source.data(), values, from, to,
                           static_cast<int64_t>(sums.begin.size()) - 1);
    }
};

// A^T B of two sparse matrices [rows, cols] as lists, [cols, cols], and the squares of its numbers.
struct ListedProduct {
    uint32_t *begin, *source, *place;  // place: of gram() alone
    float *values, *squares;

    // to = (A^T B) from of one panel, or with squares.
    void multiply(bool squared, const float* from, float* to, int64_t cols) const {
        panel_loops().sums(begin, source, squared ? squares : values, from, to, cols);
    }
};

// Everything in the scratch of one matrix.
struct ProjectorScratch {
    Panels gradient;           // G^T [n, m]
    Panels folded;             // G Q [m, d_n]
    Panels difference_folded;  // (P P^T G Q Q^T - G) Q [m, d_n]; then P K
    Panels left_half;          // P S [m, d_n]
    Panels compressed;         // S = P^T G Q [d_m, d_n]
    Panels difference;         // K = P^T (P P^T G Q Q^T - G) Q [d_m, d_n]
    // Of the numbers of P, and of Q: in the lists' orders, moments of Adam, gradient, the best that were seen, and
    // what each piece adds to the gradient.
    float *left_by_row, *left_by_column, *left_first, *left_second, *left_gradient, *left_best, *left_sums;
    float *right_by_row, *right_by_column, *right_first, *right_second, *right_gradient, *right_best, *right_sums;
    ListedProduct left_product, right_product;
    double* panel_sums;  // two for each panel
    float* tiles;        // of each worker
    int64_t short_numbers = 0, worker_numbers = 0;
    int64_t bytes = 0;

    ProjectorScratch(const ProjectorShape& shape, int threads, std::byte* base);
    explicit ProjectorScratch(const ProjectorContext& context);

    // Of one worker: panels of d_n, d_n and n rows.
    float* short_tile(int worker, int index) const { return tiles + worker * worker_numbers + index * short_numbers; }
    float* long_tile(int worker) const { return short_tile(worker, 2); }
};

// Pieces of a loop over panels whose sums are added up: a function of the number of panels, never of the team.
inline constexpr int64_t kPieces = 16;

// values in the order of both lists
SparseValues in_lists(const SparsePositions& positions, std::span<const float> values, float* by_row, float* by_column);
// to = from^T, from [rows, cols] row by row
void turn_rows(std::span<const float> from, const Panels& to, Team& team);
// The rows of a panel's width, from [kPanel row_panel, ...) on, of a matrix, turned: [cols, kPanel].
void turned_rows(const Panels& from, int64_t row_panel, float* to);
// And back: tile [cols of `to`, kPanel] turned becomes these rows.
void put_turned_rows(const float* tile, int64_t row_panel, const Panels& to);
// Adds up in order.
double ordered_sum(std::span<const double> parts);

}  // namespace windlass
