// bias.h: one gradient, compressed and shown again by one projector: what bias and learning have in common.
#pragma once

#include "method/projector/panels.h"

namespace windlass {

void copy_values(const ProjectorValues& from, const ProjectorValues& to);

struct BiasPass {
    const ProjectorShape& shape;
    ProjectorScratch scratch;
    Team& team;
    SparseValues left, right;

    BiasPass(const ProjectorContext& context, const ProjectorValues& values);

    void take(const ProjectorValues& values);
    void set_gradient(std::span<const float> gradient);
    // folds: also (P P^T G Q Q^T - G) Q, for the gradient.
    ProjectorBias measure(bool folds);
    float* shown_rows(int64_t panel, int worker) const;

  private:
    void compress();
    double squares(const Panels& of) const;

    double gradient_squares_ = 0;
};

// The gradient of the relative bias by the numbers of P and Q, zero where the bias is. Returns the bias.
double projector_gradient(BiasPass& pass, const ProjectorValues& out);

}  // namespace windlass
