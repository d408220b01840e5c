#include <algorithm>
#include <bit>

#include "base/index.h"
#include "base/rng.h"
#include "method/projector/panels.h"

namespace windlass {
namespace {

// Eight elements share a block of four words, half a word each. Blocks are counted as where four share one, so that no
// two elements of a model draw the same bits.
constexpr int64_t kShare = 8;

void add_rounded(const float* x, float* w, int64_t count, int64_t, const ProjectorRounding&) {
    for (int64_t i = 0; i < count; ++i) w[i] += x[i];
}

// w[i] += x[i] for `count` elements; the first one has the number `first` in the model.
void add_rounded(const float* x, bf16* w, int64_t count, int64_t first, const ProjectorRounding& rounding) {
    std::array<uint32_t, 4> words{};
    for (int64_t i = 0; i < count; ++i) {
        const int64_t element = first + i, place = element % kShare;
        if (i == 0 || place == 0)
            words = philox(rounding.key, {.block = static_cast<uint64_t>(element / kShare * 2),
                                          .stream = RandomStream::rounding,
                                          .step = rounding.step});
        const uint32_t word = words[at(place / 2)], bits = place % 2 == 0 ? word & 0xffff : word >> 16;
        // As in adamw/README.md: the upper half of u + r.
        w[i].bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(to_float(w[i]) + x[i]) + bits) >> 16);
    }
}

template <typename Weight>
void add_sum(const ProjectorContext& context, const ProjectorValues& values, std::span<float> s,
             const ProjectorRounding& rounding, std::span<Weight> w) {
    const ProjectorShape& shape = context.shape;
    const int64_t m = shape.rows(), n = shape.cols();
    WINDLASS_CHECK(std::ssize(s) == shape.left_cols() * shape.right_cols() && std::ssize(w) == m * n,
                   "{} numbers of S and {} of W", s.size(), w.size());
    WINDLASS_CHECK(rounding.first % kShare == 0, "elements from {} on", rounding.first);
    const ProjectorScratch scratch(context);
    const SparseValues left = in_lists(*shape.left, values.left, scratch.left_by_row, scratch.left_by_column);
    const SparseValues right = in_lists(*shape.right, values.right, scratch.right_by_row, scratch.right_by_column);
    // S^T, then S, in panels, then P S.
    const Panels turned{scratch.gradient.data, shape.right_cols(), shape.left_cols()};
    turn_rows(s, turned, context.team);
    context.team.parallel_for(
        turned.count(), [&](int64_t panel, int) { put_turned_rows(turned.panel(panel), panel, scratch.compressed); });
    context.team.parallel_for(scratch.compressed.count(), [&](int64_t panel, int) {
        left.expand(scratch.compressed.panel(panel), scratch.left_half.panel(panel));
    });
    context.team.parallel_for(div_up(m, kPanel), [&](int64_t panel, int worker) {
        float* const half = scratch.short_tile(worker, 0);
        float* const square = scratch.short_tile(worker, 1);
        turned_rows(scratch.left_half, panel, half);
        right.expand(half, scratch.long_tile(worker));
        const int64_t first_row = panel * kPanel, rows = std::min(kPanel, m - first_row);
        for (int64_t col = 0; col < n; col += kPanel) {
            panel_loops().turn(scratch.long_tile(worker) + col * kPanel, kPanel, square, kPanel);
            for (int64_t row = 0; row < rows; ++row) {
                const int64_t element = (first_row + row) * n + col;
                add_rounded(square + row * kPanel, w.data() + element, std::min(kPanel, n - col),
                            rounding.first + element, rounding);
            }
        }
    });
    std::ranges::fill(s, 0.0f);
}

}  // namespace

void write_back(const ProjectorContext& context, const ProjectorValues& values, std::span<float> s,
                const ProjectorRounding& rounding, DType type, std::span<std::byte> w) {
    if (type == DType::bf16)
        return add_sum<bf16>(context, values, s, rounding,
                             {reinterpret_cast<bf16*>(w.data()), w.size() / sizeof(bf16)});
    WINDLASS_CHECK(type == DType::f32, "a sum is written back to {}", dtype_name(type));
    add_sum<float>(context, values, s, rounding, {reinterpret_cast<float*>(w.data()), w.size() / sizeof(float)});
}

}  // namespace windlass
