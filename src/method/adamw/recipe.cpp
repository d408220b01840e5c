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
void update_pieces(const UpdateCall& call, Stream& stream, AdamwLoop<Moments>* loop,
                   Moments (*moments_at)(std::span<std::byte* const>, int64_t)) {
    const AdamwCoefficients c = adamw_coefficients(call);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceElements), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceElements;
        const int64_t count = std::min(kPieceElements, call.count - begin);
        loop(c, adamw_noise(call, begin), count, call.hi + begin, call.lo + begin, moments_at(call.state, begin),
             call.gradient + begin);
    });
}

void update_f32(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwF32>> kLoop = {baseline::adamw_f32, avx2::adamw_f32, avx512::adamw_f32};
    update_pieces(call, stream, kLoop.pick(), adamw_f32_at);
}

void update_bf16(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBf16>> kLoop = {baseline::adamw_bf16, avx2::adamw_bf16,
                                                              avx512::adamw_bf16};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0, "element {} begins inside a block", call.element);
    update_pieces(call, stream, kLoop.pick(), adamw_bf16_at);
}

void update_blocks(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop<AdamwBlocks>> kLoop = {baseline::adamw_blocks, avx2::adamw_blocks,
                                                                avx512::adamw_blocks};
    WINDLASS_CHECK(call.element % kAdamwBlock == 0 && call.first % kAdamwBlock == 0, "element {} begins inside a block",
                   call.first);
    update_pieces(call, stream, kLoop.pick(), adamw_blocks_at);
}

// What one format needs. The update reads hi lo m v and the gradient, and writes all but the gradient.
struct Format {
    std::vector<StateSpec> state;
    UpdateKernel update;  // on the CPU
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
            .moments = kAdamwMoments[static_cast<size_t>(options.state_format)],
            .needs_grad_norm = true,  // for clipping, and to see what is not finite
            .update_bytes_per_element = format.update_bytes_per_element,
            .update = {format.update, nullptr, kAdamwCuda[static_cast<size_t>(options.state_format)]},
            .prepare = prepare};
}

}  // namespace

const Method kAdamw = {"adamw", recipe};

}  // namespace windlass
