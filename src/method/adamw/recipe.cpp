#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/adamw/adamw_kernel.h"
#include "method/methods.h"

namespace windlass {
namespace {

// Elements that a worker takes at a time: a quarter MiB of each array, far more than the cost of handing it out.
constexpr int64_t kPieceElements = int64_t{1} << 16;

void prepare(const MethodOptions& options, StepParams& step) {
    step.method = GradientStep{options.beta1, options.beta2, options.epsilon, options.weight_decay};
}

AdamwCoefficients coefficients(const UpdateCall& call) {
    const StepParams& step = *call.step;
    const GradientStep& of = step.gradient();
    const ParamTraining& training = call.param.training;
    const double t = static_cast<double>(step.step), rate = step.learning_rate * training.learning_rate_scale;
    const double decay = training.decays ? rate * training.weight_decay.value_or(of.weight_decay) : 0.0;
    const double step_size = rate / (1.0 - std::pow(of.beta1, t));
    const double root_bias2 = std::sqrt(1.0 - std::pow(of.beta2, t));
    return {.clip = static_cast<float>(step.clip_scale),
            .decay = static_cast<float>(1.0 - decay),
            .beta1 = static_cast<float>(of.beta1),
            .one_minus_beta1 = static_cast<float>(1.0 - of.beta1),
            .beta2 = static_cast<float>(of.beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - of.beta2),
            .step_size = static_cast<float>(step_size),
            .root_bias2 = static_cast<float>(root_bias2),
            .epsilon = static_cast<float>(of.epsilon),
            .first_gain = static_cast<float>(step.clip_scale * (1.0 - of.beta1)),
            .root_second_gain = static_cast<float>(step.clip_scale * std::sqrt(1.0 - of.beta2)),
            .step_gain = static_cast<float>(step_size * root_bias2),
            .epsilon_gain = static_cast<float>(of.epsilon * root_bias2)};
}

// The moments of the elements from `begin` on, by format.
AdamwF32 f32_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<float*>(state[0]) + begin, reinterpret_cast<float*>(state[1]) + begin};
}
AdamwBf16 bf16_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<uint16_t*>(state[0]) + begin, reinterpret_cast<uint16_t*>(state[1]) + begin};
}
AdamwBlocks blocks_at(std::span<std::byte* const> state, int64_t begin) {
    return {reinterpret_cast<uint8_t*>(state[0]) + begin, reinterpret_cast<float*>(state[1]) + begin / kAdamwBlock,
            reinterpret_cast<uint8_t*>(state[2]) + begin, reinterpret_cast<float*>(state[3]) + begin / kAdamwBlock};
}

template <typename Moments>
void update_pieces(const UpdateCall& call, Stream& stream, AdamwLoop<Moments>* loop,
                   Moments (*moments_at)(std::span<std::byte* const>, int64_t)) {
    const AdamwCoefficients c = coefficients(call);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceElements), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceElements;
        const int64_t count = std::min(kPieceElements, call.count - begin);
        const AdamwNoise noise = {.seed = call.step->seed,
                                  .block = static_cast<uint64_t>(call.element + begin) / 4,
                                  .stream = static_cast<uint32_t>(RandomStream::rounding),
                                  .step = static_cast<uint32_t>(call.step->step)};
        loop(c, noise, count, call.hi + begin, call.lo + begin, moments_at(call.state, begin), call.gradient + begin);
    });
}

void update_f32(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwF32>> kLoop = {baseline::adamw_f32, avx2::adamw_f32, avx512::adamw_f32};
    update_pieces(call, stream, kLoop.pick(), f32_at);
}

void update_bf16(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBf16>> kLoop = {baseline::adamw_bf16, avx2::adamw_bf16,
                                                              avx512::adamw_bf16};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0, "element {} begins inside a block", call.element);
    update_pieces(call, stream, kLoop.pick(), bf16_at);
}

void update_blocks(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBlocks>> kLoop = {baseline::adamw_blocks, avx2::adamw_blocks,
                                                                avx512::adamw_blocks};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0 && call.first % kAdamwBlock == 0, "element {} begins inside a block",
                   call.first);
    update_pieces(call, stream, kLoop.pick(), blocks_at);
}

// What one format needs. The update reads hi lo m v and the gradient, and writes all but the gradient.
struct Format {
    std::vector<StateSpec> state;
    UpdateKernel update;
    int update_bytes_per_element;
};

Format format_of(StateFormat format) {
    switch (format) {
        case StateFormat::fp32:
            break;
        case StateFormat::bf16:
            return {{{"m", 2}, {"v", 2}}, update_bf16, 20};
        case StateFormat::int8:
            return {{{"m", 1}, {"m_scale", 4, kAdamwBlock}, {"v", 1}, {"v_scale", 4, kAdamwBlock}}, update_blocks, 16};
    }
    return {{{"m", 4}, {"v", 4}}, update_f32, 28};
}

Recipe recipe(const MethodOptions& options) {
    Format format = format_of(options.state_format);
    return {.name = "adamw",
            .store = StoreType::split,
            .passes = {{PassKind::forward}, {PassKind::backward}},
            .state = std::move(format.state),
            .needs_grad_norm = true,  // for clipping, and to see what is not finite
            .update_bytes_per_element = format.update_bytes_per_element,
            .update = {format.update, nullptr},
            .prepare = prepare};
}

}  // namespace

const Method kAdamw = {"adamw", recipe};

}  // namespace windlass
