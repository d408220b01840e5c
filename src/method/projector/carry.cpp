#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "method/projector/panels.h"

namespace windlass {
namespace {

// A^T B of two matrices with the same positions: row by row, in the order in which a row's columns are first met.
ListedProduct gram(const SparsePositions& positions, std::span<const float> a, std::span<const float> b,
                   const ListedProduct& into) {
    const SparseSums &columns = positions.by_column, &rows = positions.by_row;
    const int64_t nonzeros = positions.shape.nonzeros;
    uint32_t used = 0;
    std::fill_n(into.place, positions.shape.cols, 0u);
    for (int64_t j = 0; j < positions.shape.cols; ++j) {
        into.begin[j] = used;
        for (uint32_t e = columns.begin[at(j)]; e < columns.begin[at(j) + 1]; ++e) {
            const float left = a[columns.value[e]];
            const int64_t row = static_cast<int64_t>(columns.source[e]) * nonzeros;
            for (int64_t k = row; k < row + nonzeros; ++k) {
                // One above the place of this column in the list; places of rows before this one lie below `begin`.
                uint32_t& place = into.place[rows.source[at(k)]];
                if (place <= into.begin[j]) {
                    into.source[used] = rows.source[at(k)];
                    into.values[used] = 0;
                    place = ++used;
                }
                into.values[place - 1] += left * b[rows.value[at(k)]];
            }
        }
    }
    into.begin[positions.shape.cols] = used;
    for (uint32_t e = 0; e < used; ++e) into.squares[e] = into.values[e] * into.values[e];
    return into;
}

struct Carrying {
    const ProjectorScratch& scratch;
    ListedProduct left, right;  // A and C^T
    Team& team;

    // A X C, or with squares (A.A) X (C.C), in scratch.compressed.
    void turn_over(std::span<const float> x, bool squared) const {
        const Panels turned{scratch.gradient.data, scratch.compressed.cols, scratch.compressed.rows};
        turn_rows(x, turned, team);
        team.parallel_for(turned.count(), [&](int64_t panel, int worker) {
            float* const tile = scratch.short_tile(worker, 0);
            right.multiply(squared, turned.panel(panel), tile, turned.rows);
            put_turned_rows(tile, panel, scratch.difference);
        });
        team.parallel_for(scratch.compressed.count(), [&](int64_t panel, int) {
            left.multiply(squared, scratch.difference.panel(panel), scratch.compressed.panel(panel),
                          scratch.compressed.rows);
        });
    }
    // to(element, its number), for all of scratch.compressed.
    template <typename Put>
    void put(const Put& to) const {
        const int64_t rows = scratch.compressed.rows, cols = scratch.compressed.cols;
        team.parallel_for(scratch.compressed.count(), [&](int64_t panel, int) {
            const float* const from = scratch.compressed.panel(panel);
            const int64_t first = panel * kPanel, width = std::min(kPanel, cols - first);
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t t = 0; t < width; ++t) to(at(row * cols + first + t), from[row * kPanel + t]);
        });
    }
};

}  // namespace

void carry_moments(const ProjectorContext& context, const ProjectorValues& values, const ProjectorValues& changed,
                   const ProjectorMoments& moments) {
    const ProjectorShape& shape = context.shape;
    WINDLASS_CHECK(std::ssize(moments.first) == shape.left_cols() * shape.right_cols() &&
                       moments.second.size() == moments.first.size(),
                   "moments of {} and {} numbers", moments.first.size(), moments.second.size());
    const ProjectorScratch scratch(context);
    const Carrying carrying{scratch, gram(*shape.left, changed.left, values.left, scratch.left_product),
                            gram(*shape.right, changed.right, values.right, scratch.right_product), context.team};
    carrying.turn_over(moments.first, false);
    carrying.put([&](size_t i, float x) { moments.first[i] = x; });
    carrying.turn_over(moments.second, true);
    // A second moment below the square of the first would make the next step a leap.
    carrying.put([&](size_t i, float x) { moments.second[i] = std::max(x, moments.first[i] * moments.first[i]); });
}

}  // namespace windlass
