#include <cmath>

#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/adamw/adamw_kernel.h"
#include "method/methods.h"

namespace windlass {
namespace {

// StepParams::method of this method.
enum Slot : size_t { kBeta1, kBeta2, kEpsilon, kWeightDecay, kBias1, kRootBias2 };

// Elements that a worker takes at a time: a quarter MiB of each array, far more than the cost of handing it out.
constexpr int64_t kPieceElements = int64_t{1} << 16;

void prepare(const MethodOptions& options, StepParams& step) {
    const double t = static_cast<double>(step.step);
    step.method[kBeta1] = options.beta1;
    step.method[kBeta2] = options.beta2;
    step.method[kEpsilon] = options.epsilon;
    step.method[kWeightDecay] = options.weight_decay;
    step.method[kBias1] = 1.0 - std::pow(options.beta1, t);
    step.method[kRootBias2] = std::sqrt(1.0 - std::pow(options.beta2, t));
}

AdamwCoefficients coefficients(const UpdateCall& call) {
    const StepParams& step = *call.step;
    const double decay = call.param->decay ? step.learning_rate * step.method[kWeightDecay] : 0.0;
    return {.clip = static_cast<float>(step.clip_scale),
            .decay = static_cast<float>(1.0 - decay),
            .beta1 = static_cast<float>(step.method[kBeta1]),
            .one_minus_beta1 = static_cast<float>(1.0 - step.method[kBeta1]),
            .beta2 = static_cast<float>(step.method[kBeta2]),
            .one_minus_beta2 = static_cast<float>(1.0 - step.method[kBeta2]),
            .step_size = static_cast<float>(step.learning_rate / step.method[kBias1]),
            .root_bias2 = static_cast<float>(step.method[kRootBias2]),
            .epsilon = static_cast<float>(step.method[kEpsilon])};
}

void update_cpu(const UpdateCall& call, Stream& stream) {
    static constexpr IsaKernel<AdamwLoop> kLoop = {baseline::adamw_loop, avx2::adamw_loop, avx512::adamw_loop};
    AdamwLoop* loop = kLoop.pick();
    const AdamwCoefficients c = coefficients(call);
    float* m = reinterpret_cast<float*>(call.state[0]);
    float* v = reinterpret_cast<float*>(call.state[1]);
    cpu_team(stream).parallel_for(div_up(call.count, kPieceElements), [&](int64_t piece, int) {
        const int64_t begin = piece * kPieceElements;
        const int64_t count = std::min(kPieceElements, call.count - begin);
        loop(c, count, call.hi + begin, call.lo + begin, m + begin, v + begin, call.gradient + begin);
    });
}

int64_t every_element(const ParamSpec& param) {
    return param.numel();
}

Recipe recipe(const MethodOptions&) {
    return {.name = "adamw",
            .store = StoreType::split,
            .sweeps = {{SweepKind::forward}, {SweepKind::reverse}},
            .state = {{"m", DType::f32, every_element}, {"v", DType::f32, every_element}},
            .on_gradient = GradientRule::accumulate,
            .needs_grad_norm = true,         // for clipping, and to see what is not finite
            .update_bytes_per_element = 28,  // reads hi lo m v g, writes hi lo m v
            .update = {update_cpu, nullptr},
            .prepare = prepare};
}

}  // namespace

const Method kAdamw = {"adamw", recipe};

}  // namespace windlass
