#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/adamw/adamw_call.h"
#include "method/adamw/adamw_cuda.h"
#include "method/adamw/moments.h"
#include "method/methods.h"

namespace windlass {
namespace {

// Elements that a worker takes at a time: a quarter MiB of each array, far more than the cost of handing it out.
constexpr int64_t kPieceElements = int64_t{1} << 16;

void prepare(const MethodOptions& options, StepParams& step) {
    step.method = GradientStep{options.beta1, options.beta2, options.epsilon, options.weight_decay};
}

template <typename Moments>
void update_pieces(const ParamCall& call, Stream& stream, AdamwLoop<Moments>* loop,
                   Moments (*moments_at)(std::span<std::byte* const>, int64_t)) {
    const AdamwCoefficients c = adamw_coefficients(call);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceElements), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceElements;
        const int64_t count = std::min(kPieceElements, call.count - begin);
        loop(c, adamw_noise(call, begin), count, call.hi + begin, call.lo + begin, moments_at(call.state, begin),
             call.gradient + begin);
    });
}

void update_f32(const ParamCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwF32>> kLoop = {baseline::adamw_f32, avx2::adamw_f32, avx512::adamw_f32};
    update_pieces(call, stream, kLoop.pick(), adamw_f32_at);
}

void update_bf16(const ParamCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBf16>> kLoop = {baseline::adamw_bf16, avx2::adamw_bf16,
                                                              avx512::adamw_bf16};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0, "element {} begins inside a block", call.element);
    update_pieces(call, stream, kLoop.pick(), adamw_bf16_at);
}

void update_blocks(const ParamCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBlocks>> kLoop = {baseline::adamw_blocks, avx2::adamw_blocks,
                                                                avx512::adamw_blocks};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0 && call.first % kAdamwBlock == 0, "element {} begins inside a block",
                   call.first);
    update_pieces(call, stream, kLoop.pick(), adamw_blocks_at);
}

// The update reads hi lo m v and the gradient, and writes all but the gradient.
ParamKernel kernel_of(StateFormat format, ParamCell cpu, int bytes_per_element) {
    return {.name = "update",
            .uses = {{ParamSlot::weights, Access::update},
                     {ParamSlot::low, Access::update},
                     {ParamSlot::state, Access::update},
                     {ParamSlot::gradient}},
            .is_update = true,
            .has_update_rate = true,
            .bytes_per_element = bytes_per_element,
            .cells = {cpu, nullptr, kAdamwCuda[static_cast<size_t>(format)]}};
}

// What one format needs.
struct Format {
    std::vector<StateSpec> state;
    const ParamKernel* kernel;
};

Format format_of(StateFormat format) {
    static const ParamKernel kF32 = kernel_of(StateFormat::fp32, update_f32, 28),
                             kBf16 = kernel_of(StateFormat::bf16, update_bf16, 20),
                             kBlocks = kernel_of(StateFormat::int8, update_blocks, 16);
    switch (format) {
        case StateFormat::fp32:
            break;
        case StateFormat::bf16:
            return {{{"m", 2}, {"v", 2}}, &kBf16};
        case StateFormat::int8:
            return {{{"m", 1}, {"m_scale", 4, kAdamwBlock}, {"v", 1}, {"v_scale", 4, kAdamwBlock}}, &kBlocks};
    }
    return {{{"m", 4}, {"v", 4}}, &kF32};
}

// The norm is for clipping, and to see what is not finite.
Recipe recipe(const MethodOptions& options) {
    Format format = format_of(options.state_format);
    return {.name = "adamw",
            .store = StoreType::split,
            .passes = {{PassKind::forward}, {PassKind::backward}},
            .acts = {{Stage::on_gradient, &kRoundGradient},
                     {Stage::on_gradient, &kSumSquares},
                     {Stage::on_norm, format.kernel}},
            .decisions = {{Stage::on_norm, clip}},
            .state = std::move(format.state),
            .moments = kAdamwMoments[static_cast<size_t>(options.state_format)],
            .prepare = prepare};
}

}  // namespace

const Method kAdamw = {"adamw", recipe};

}  // namespace windlass
