#include "method/projector/panels.h"

#include <algorithm>
#include <cstring>

#include "base/index.h"

namespace windlass {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kSquare = kPanel * kPanel;

// Hands out what lies after one another; from null, it counts.
struct Cutter {
    std::byte* base;
    int64_t used = 0;

    template <typename T>
    T* take(int64_t count) {
        // One list of arrays for counting and for handing out, so that the two cannot differ.
        T* const from = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
        used += round_up(count * static_cast<int64_t>(sizeof(T)), kAlign);
        return from;
    }
    Panels panels(int64_t rows, int64_t cols) {
        Panels made{nullptr, rows, cols};
        made.data = take<float>(made.numbers());
        return made;
    }
};

// Rows of A^T B have numbers for each row of A with one in a column, and each lane of it in B.
ListedProduct listed_product(Cutter& cut, const SparseShape& shape) {
    const int64_t in_column = shape.nonzeros * div_up(shape.rows, shape.cols);
    const int64_t count = shape.cols * std::min(shape.cols, in_column * shape.nonzeros);
    ListedProduct made{};
    made.begin = cut.take<uint32_t>(shape.cols + 1);
    made.source = cut.take<uint32_t>(count);
    made.place = cut.take<uint32_t>(shape.cols);
    made.values = cut.take<float>(count);
    made.squares = cut.take<float>(count);
    return made;
}

void clear_padding(const Panels& of) {
    if (of.data == nullptr) return;
    const int64_t begin = of.rows * kPanel, bytes = (of.panel_numbers() - begin) * int64_t{sizeof(float)};
    for (int64_t panel = 0; panel < of.count(); ++panel) std::memset(of.panel(panel) + begin, 0, at(bytes));
}

int64_t tile_numbers(int64_t rows) {
    return round_up(rows, kPanel) * kPanel;
}

}  // namespace

ProjectorScratch::ProjectorScratch(const ProjectorShape& shape, int threads, std::byte* base) {
    const int64_t m = shape.rows(), n = shape.cols(), dm = shape.left_cols(), dn = shape.right_cols();
    Cutter cut{base};
    gradient = cut.panels(n, m);
    folded = cut.panels(m, dn);
    difference_folded = cut.panels(m, dn);
    left_half = cut.panels(m, dn);
    compressed = cut.panels(dm, dn);
    difference = cut.panels(dm, dn);
    for (float** const each : {&left_by_row, &left_by_column, &left_first, &left_second, &left_gradient, &left_best})
        *each = cut.take<float>(shape.left_values());
    for (float** const each :
         {&right_by_row, &right_by_column, &right_first, &right_second, &right_gradient, &right_best})
        *each = cut.take<float>(shape.right_values());
    left_sums = cut.take<float>(kPieces * shape.left_values());
    right_sums = cut.take<float>(kPieces * shape.right_values());
    left_product = listed_product(cut, shape.left->shape);
    right_product = listed_product(cut, shape.right->shape);
    panel_sums = cut.take<double>(2 * std::max(gradient.count(), folded.count()));
    short_numbers = tile_numbers(dn);
    worker_numbers = tile_numbers(n) + 2 * short_numbers;
    tiles = cut.take<float>(threads * worker_numbers);
    bytes = cut.used;
    if (base == nullptr) return;
    // Padding is multiplied like the rest, and scratch holds what another task left in it.
    for (const Panels& each : {gradient, folded, difference_folded, left_half, compressed, difference})
        clear_padding(each);
    std::memset(tiles, 0, at(threads * worker_numbers) * sizeof(float));
}

ProjectorScratch::ProjectorScratch(const ProjectorContext& context)
    : ProjectorScratch(context.shape, context.team.size(), context.scratch.data()) {
    WINDLASS_CHECK(bytes <= std::ssize(context.scratch), "{} bytes of scratch, {} are needed", context.scratch.size(),
                   bytes);
}

int64_t projector_scratch_bytes(const ProjectorShape& shape, int threads) {
    return ProjectorScratch(shape, threads, nullptr).bytes;
}

SparseValues in_lists(const SparsePositions& positions, std::span<const float> values, float* by_row,
                      float* by_column) {
    const auto fill = [&](const SparseSums& sums, float* to) {
        for (size_t e = 0; e < sums.value.size(); ++e) to[e] = values[sums.value[e]];
    };
    fill(positions.by_row, by_row);
    fill(positions.by_column, by_column);
    return {&positions, by_row, by_column};
}

void turn_rows(std::span<const float> from, const Panels& to, Team& team) {
    const int64_t cols = to.rows, rows = to.cols;
    team.parallel_for(to.count(), [&](int64_t panel, int) {
        const int64_t first = panel * kPanel, count = std::min(kPanel, rows - first);
        for (int64_t col = 0; col < cols; col += kPanel) {
            const float* const source = from.data() + first * cols + col;
            float* const target = to.panel(panel) + col * kPanel;
            const int64_t width = std::min(kPanel, cols - col);
            if (count == kPanel && width == kPanel) {
                panel_loops().turn(source, cols, target, kPanel);
                continue;
            }
            // At the edges of the matrix a whole square would read past its end.
            float square[kSquare] = {};
            for (int64_t row = 0; row < count; ++row)
                std::memcpy(square + row * kPanel, source + row * cols, at(width) * sizeof(float));
            panel_loops().turn(square, kPanel, target, kPanel);
        }
    });
}

void turned_rows(const Panels& from, int64_t row_panel, float* to) {
    for (int64_t panel = 0; panel < from.count(); ++panel)
        panel_loops().turn(from.square(row_panel, panel), kPanel, to + panel * kSquare, kPanel);
}

void put_turned_rows(const float* tile, int64_t row_panel, const Panels& to) {
    for (int64_t panel = 0; panel < to.count(); ++panel)
        panel_loops().turn(tile + panel * kSquare, kPanel, to.square(row_panel, panel), kPanel);
}

double ordered_sum(std::span<const double> parts) {
    double sum = 0;
    for (const double each : parts) sum += each;
    return sum;
}

}  // namespace windlass
