#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/lomo/lomo_call.h"
#include "method/lomo/lomo_cuda.h"
#include "method/methods.h"

namespace windlass {
namespace {

// Elements that a worker takes at a time: whole blocks.
constexpr int64_t kLomoPiece = int64_t{1} << 16;

void prepare_lomo(const MethodOptions& options, StepParams& step) {
    step.method = GradientStep{.weight_decay = options.weight_decay};
}

void update_lomo(const ParamCall& call, Stream& stream) {
    static constexpr IsaKernel<LomoLoop> kLoop = {baseline::lomo_step, avx2::lomo_step, avx512::lomo_step};
    WINDLASS_CHECK(call.element % kLomoBlock == 0, "element {} begins inside a block", call.element);
    const LomoStep step = lomo_step_of(call);
    LomoLoop* const loop = kLoop.pick();
    cpu_team(stream).parallel_for(div_up(call.count, kLomoPiece), [&](int64_t piece, int) {
        const int64_t begin = piece * kLomoPiece;
        loop(step, lomo_noise(call, begin), std::min(kLomoPiece, call.count - begin), lomo_weights(call, begin),
             call.gradient + begin);
    });
}

ParamKernel kernel_of(int bytes_per_element) {
    return {.name = "update",
            .uses = lomo_uses(),
            .is_update = true,
            .has_update_rate = true,
            .bytes_per_element = bytes_per_element,
            .cells = {update_lomo, nullptr, kLomoCuda}};
}

// The gradient is read, and weights are read and written: two bytes each as bf16, four as masters.
Recipe recipe(const MethodOptions& options) {
    static const ParamKernel kAsFile = kernel_of(8), kSplit = kernel_of(12);
    return lomo_recipe(options, "lomo", options.split_masters ? kSplit : kAsFile);
}

// Before anything is changed.
Decision require_finite_loss(const MethodOptions&, const Evidence& evidence, StepParams& step) {
    step.apply = std::isfinite(evidence.losses.front());
    return {.loss = evidence.losses.front()};
}

// Everything is updated.
Decision find_spoiled(const MethodOptions&, const Evidence& evidence, StepParams& step) {
    return {
        .loss = evidence.losses.front(), .norm = evidence.norm, .spoiled = step.apply && !std::isfinite(evidence.norm)};
}

}  // namespace

std::vector<SlotUse> lomo_uses() {
    return {{ParamSlot::weights, Access::update}, {ParamSlot::low, Access::update}, {ParamSlot::gradient}};
}

// Clipping takes the norm before the first update, and so a backward pass of its own; else the norm only shows, in the
// end, what was not finite.
Recipe lomo_recipe(const MethodOptions& options, std::string_view name, const ParamKernel& update) {
    Recipe made{.name = std::string(name),
                .store = options.split_masters ? StoreType::split : StoreType::as_file,
                .passes = {{PassKind::forward}, {PassKind::backward}},
                .prepare = prepare_lomo};
    if (options.max_grad_norm > 0) {
        made.passes.push_back({PassKind::backward});
        made.acts = {{Stage::on_gradient, &kSumSquares, 1}, {Stage::on_gradient, &update, 2}};
        made.decisions = {{Stage::on_norm, clip}};
    } else {
        made.acts = {{Stage::on_gradient, &kSumSquares}, {Stage::on_gradient, &update}};
        made.decisions = {{Stage::on_losses, require_finite_loss}, {Stage::at_end, find_spoiled}};
    }
    return made;
}

// The rate of arXiv 2306.09782.
const Method kLomo = {.name = "lomo", .recipe = recipe, .usual_rate = 0.03};

}  // namespace windlass
