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

void update_lomo(const UpdateCall& call, Stream& stream) {
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

// The gradient is read, and weights are read and written: two bytes each as bf16, four as masters.
Recipe recipe(const MethodOptions& options) {
    Recipe made = lomo_recipe(options, "lomo");
    made.update_bytes_per_element = options.split_masters ? 12 : 8;
    made.update = {update_lomo, nullptr, kLomoCuda};
    return made;
}

}  // namespace

Recipe lomo_recipe(const MethodOptions& options, std::string_view name) {
    return {.name = std::string(name),
            .store = options.split_masters ? StoreType::split : StoreType::as_file,
            .passes = {{PassKind::forward}, {PassKind::backward}},
            .needs_grad_norm = true,  // for clipping, or only to see what is not finite
            .uses_gradients_at_once = true,
            .backward_for_norm = options.max_grad_norm > 0,
            .prepare = prepare_lomo};
}

const Method kLomo = {"lomo", recipe};

}  // namespace windlass
