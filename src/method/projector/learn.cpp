#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "method/projector/bias.h"

namespace windlass {
namespace {

// As in Adam's paper (Kingma and Ba, 2015).
constexpr double kLearnBeta1 = 0.9, kLearnBeta2 = 0.999, kLearnEpsilon = 1e-8;

// Runs body(panel, piece, worker) for all panels, those of a piece by one worker, one after another. Pieces depend on
// the number of panels, never on the team, so that sums have one order.
template <typename Body>
void for_panel_pieces(Team& team, int64_t panels, const Body& body) {
    team.parallel_for(kPieces, [&](int64_t piece, int worker) {
        for (int64_t panel = panels * piece / kPieces; panel < panels * (piece + 1) / kPieces; ++panel)
            body(panel, piece, worker);
    });
}

// The sums of all pieces in their order, times `scale`.
void add_pieces(const float* pieces, float scale, std::span<float> out) {
    const int64_t count = std::ssize(out);
    for (int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int64_t piece = 0; piece < kPieces; ++piece) sum += pieces[piece * count + i];
        out[at(i)] = scale * sum;
    }
}

// With E = P S Q^T - G, S = P^T G Q and K = P^T E Q, |E| / |G| has the gradient, by the number of P in row i and
// column j, ((E Q)_i . S_j + (G Q)_i . K_j) / (|E| |G|), and by that of Q in row q and column b,
// ((E^T P)_q . S^b + (G^T P)_q . K^b) / (|E| |G|) = (E^q . (P S)^b + G^q . (P K)^b) / (|E| |G|): the last form needs no
// products with P beyond P S and P K. (Rows have a lower index, columns an upper one.)
void left_gradient(const BiasPass& pass) {
    const ProjectorScratch& scratch = pass.scratch;
    const int64_t values = pass.shape.left_values();
    std::fill_n(scratch.left_sums, kPieces * values, 0.0f);
    for_panel_pieces(pass.team, scratch.folded.count(), [&](int64_t panel, int64_t piece, int) {
        float* const folded = scratch.difference_folded.panel(panel);
        pass.left.project(folded, scratch.difference.panel(panel));
        panel_loops().sampled(pass.shape.left->by_row.source.data(), pass.shape.left->shape.nonzeros, folded,
                              scratch.compressed.panel(panel), scratch.folded.panel(panel),
                              scratch.difference.panel(panel), scratch.left_sums + piece * values, pass.shape.rows());
        pass.left.expand(scratch.difference.panel(panel), folded);
    });
}

void right_gradient(const BiasPass& pass) {
    const ProjectorScratch& scratch = pass.scratch;
    const int64_t values = pass.shape.right_values(), n = pass.shape.cols();
    std::fill_n(scratch.right_sums, kPieces * values, 0.0f);
    for_panel_pieces(pass.team, scratch.gradient.count(), [&](int64_t panel, int64_t piece, int worker) {
        float* const rows = pass.shown_rows(panel, worker);
        const float* const gradient = scratch.gradient.panel(panel);
        // E was not kept: it would take as much memory as G.
        panel_loops().subtract(gradient, rows, n);
        turned_rows(scratch.difference_folded, panel, scratch.short_tile(worker, 1));
        panel_loops().sampled(pass.shape.right->by_row.source.data(), pass.shape.right->shape.nonzeros, rows,
                              scratch.short_tile(worker, 0), gradient, scratch.short_tile(worker, 1),
                              scratch.right_sums + piece * values, n);
    });
}

struct AdamSide {
    std::span<float> values;
    float *first, *second;
    const float* gradient;
    double rate;

    void reset() const {
        std::fill_n(first, values.size(), 0.0f);
        std::fill_n(second, values.size(), 0.0f);
    }
    void step(int64_t t) const {
        const auto size = static_cast<float>(rate / (1 - std::pow(kLearnBeta1, static_cast<double>(t))));
        const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(kLearnBeta2, static_cast<double>(t))));
        constexpr auto kKeep1 = static_cast<float>(kLearnBeta1), kKeep2 = static_cast<float>(kLearnBeta2);
        for (size_t i = 0; i < values.size(); ++i) {
            first[i] = kKeep1 * first[i] + (1 - kKeep1) * gradient[i];
            second[i] = kKeep2 * second[i] + (1 - kKeep2) * (gradient[i] * gradient[i]);
            values[i] -= size * first[i] / (std::sqrt(second[i]) * root + static_cast<float>(kLearnEpsilon));
        }
    }
};

double root_mean_square(std::span<const float> values) {
    double sum = 0;
    for (const float each : values) sum += static_cast<double>(each) * static_cast<double>(each);
    return std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

double projector_gradient(BiasPass& pass, const ProjectorValues& out) {
    const ProjectorBias bias = pass.measure(true);
    left_gradient(pass);
    right_gradient(pass);
    const double norms = std::sqrt(bias.difference) * std::sqrt(bias.gradient);
    const auto scale = static_cast<float>(norms > 0 ? 1 / norms : 0);
    add_pieces(pass.scratch.left_sums, scale, out.left);
    add_pieces(pass.scratch.right_sums, scale, out.right);
    return bias.relative();
}

ProjectorLearned learn_projector(const ProjectorContext& context, std::span<const float> gradient,
                                 const ProjectorLearning& learning, const ProjectorValues& values) {
    BiasPass pass(context, values);
    pass.set_gradient(gradient);
    const ProjectorScratch& scratch = pass.scratch;
    const ProjectorValues slope{{scratch.left_gradient, values.left.size()},
                                {scratch.right_gradient, values.right.size()}};
    const ProjectorValues best{{scratch.left_best, values.left.size()}, {scratch.right_best, values.right.size()}};
    // Rates are in parts of the numbers' root mean square, so that one setting suits matrices of any size.
    const AdamSide left{values.left, scratch.left_first, scratch.left_second, scratch.left_gradient,
                        learning.rate * root_mean_square(values.left)};
    const AdamSide right{values.right, scratch.right_first, scratch.right_second, scratch.right_gradient,
                         learning.rate * root_mean_square(values.right)};
    left.reset();
    right.reset();
    ProjectorLearned learned;
    double mark = 0;  // the bias from which patience is counted
    int mark_at = 0;
    for (int t = 0;; ++t) {
        const bool last = t == learning.iterations;
        const double relative = last ? pass.measure(false).relative() : projector_gradient(pass, slope);
        // Steps of Adam may make the bias worse before it gets better: the best that was seen counts.
        if (t == 0 || relative < learned.relative) {
            learned.relative = relative;
            copy_values(values, best);
        }
        if (t == 0 || relative < mark - learning.least_gain) mark = relative, mark_at = t;
        // The end depends on numbers, never on a clock: a faster machine must find the same projectors.
        if (last || relative <= learning.enough || t - mark_at >= learning.patience) break;
        left.step(t + 1);
        right.step(t + 1);
        pass.take(values);
        learned.iterations = t + 1;
    }
    copy_values(best, values);
    return learned;
}

}  // namespace windlass
