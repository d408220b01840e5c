#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "method/projector/bias.h"

namespace windlass {

double ProjectorBias::relative() const {
    return gradient == 0 ? 0.0 : std::sqrt(difference / gradient);
}

double ProjectorBias::best_scale() const {
    // <P P^T G Q Q^T, G> = <P^T G Q, P^T G Q>
    return shown == 0 ? 1.0 : compressed / shown;
}

void rescale_projector(const ProjectorValues& values, double c) {
    // P P^T G Q Q^T has P and Q twice each, so each takes the fourth root.
    const auto factor = static_cast<float>(std::sqrt(std::sqrt(c)));
    for (const std::span<float> side : {values.left, values.right})
        for (float& each : side) each *= factor;
}

void copy_values(const ProjectorValues& from, const ProjectorValues& to) {
    std::ranges::copy(from.left, to.left.begin());
    std::ranges::copy(from.right, to.right.begin());
}

BiasPass::BiasPass(const ProjectorContext& context, const ProjectorValues& values)
    : shape(context.shape), scratch(context), team(context.team) {
    take(values);
}

void BiasPass::take(const ProjectorValues& values) {
    left = in_lists(*shape.left, values.left, scratch.left_by_row, scratch.left_by_column);
    right = in_lists(*shape.right, values.right, scratch.right_by_row, scratch.right_by_column);
}

void BiasPass::set_gradient(std::span<const float> gradient) {
    WINDLASS_CHECK(std::ssize(gradient) == shape.rows() * shape.cols(), "a gradient of {} numbers", gradient.size());
    turn_rows(gradient, scratch.gradient, team);
    gradient_squares_ = squares(scratch.gradient);
}

// A sum for each panel, added in the panels' order: bits do not depend on the number of workers.
double BiasPass::squares(const Panels& of) const {
    team.parallel_for(of.count(), [&](int64_t panel, int) {
        scratch.panel_sums[panel] = panel_loops().dot(of.panel(panel), of.panel(panel), of.rows);
    });
    return ordered_sum({scratch.panel_sums, at(of.count())});
}

// G Q, S = P^T G Q and P S.
void BiasPass::compress() {
    team.parallel_for(scratch.gradient.count(), [&](int64_t panel, int worker) {
        float* const tile = scratch.short_tile(worker, 0);
        right.project(scratch.gradient.panel(panel), tile);
        put_turned_rows(tile, panel, scratch.folded);
    });
    team.parallel_for(scratch.compressed.count(), [&](int64_t panel, int) {
        left.project(scratch.folded.panel(panel), scratch.compressed.panel(panel));
        left.expand(scratch.compressed.panel(panel), scratch.left_half.panel(panel));
    });
}

// kPanel rows of P S Q^T, turned: [n, kPanel]. P S, turned, is left in the worker's first short tile.
float* BiasPass::shown_rows(int64_t panel, int worker) const {
    float* const half = scratch.short_tile(worker, 0);
    turned_rows(scratch.left_half, panel, half);
    right.expand(half, scratch.long_tile(worker));
    return scratch.long_tile(worker);
}

ProjectorBias BiasPass::measure(bool folds) {
    compress();
    const int64_t panels = scratch.gradient.count(), n = shape.cols();
    double* const differences = scratch.panel_sums + panels;
    team.parallel_for(panels, [&](int64_t panel, int worker) {
        float* const rows = shown_rows(panel, worker);
        scratch.panel_sums[panel] = panel_loops().dot(rows, rows, n);
        // The difference E is as large as G: it lives panel by panel, and a second pass makes it once more.
        panel_loops().subtract(scratch.gradient.panel(panel), rows, n);
        differences[panel] = panel_loops().dot(rows, rows, n);
        if (!folds) return;
        float* const tile = scratch.short_tile(worker, 1);
        right.project(rows, tile);
        put_turned_rows(tile, panel, scratch.difference_folded);
    });
    ProjectorBias bias{.gradient = gradient_squares_,
                       .shown = ordered_sum({scratch.panel_sums, at(panels)}),
                       .difference = ordered_sum({differences, at(panels)})};
    bias.compressed = squares(scratch.compressed);
    return bias;
}

ProjectorBias projector_bias(const ProjectorContext& context, std::span<const float> gradient,
                             const ProjectorValues& values) {
    BiasPass pass(context, values);
    pass.set_gradient(gradient);
    return pass.measure(false);
}

}  // namespace windlass
