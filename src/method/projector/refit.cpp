#include "method/projector/bias.h"

namespace windlass {
namespace {

void round_to_bf16(const ProjectorValues& values) {
    for (const std::span<float> side : {values.left, values.right})
        for (float& each : side) each = to_float(to_bf16(each));
}

}  // namespace

ProjectorRefit refit_projector(const ProjectorContext& context, const ProjectorHalves& gradients,
                               const ProjectorLearning& learning, const ProjectorValues& values,
                               const ProjectorValues& changed) {
    ProjectorRefit refit{.before = projector_bias(context, gradients.judge, values).relative()};
    copy_values(values, changed);
    // Random signs are right in the mean, but miss the gradient by more than its length. The best scale, known in
    // closed form, alone brings the bias below 1.
    refit.scale = projector_bias(context, gradients.fit, changed).best_scale();
    rescale_projector(changed, refit.scale);
    if (learning.iterations > 0)
        refit.iterations = learn_projector(context, gradients.fit, learning, changed).iterations;
    // Judged as the run will compute with them: a fit that is better in f32 may be worse after rounding.
    round_to_bf16(changed);
    refit.after = projector_bias(context, gradients.judge, changed).relative();
    refit.accepted = refit.after < refit.before;  // not where either is no number
    if (!refit.accepted) copy_values(values, changed);
    return refit;
}

}  // namespace windlass
