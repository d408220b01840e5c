#include "method/noise/arrival.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "method/noise/noise.h"
#include "model/load.h"

namespace windlass {
namespace {

// Places in StepParams::method.
enum Place : size_t { kEps, kDecay, kDirections, kKind };

NoiseRun run_of(const ArrivalCall& call, const StepParams& step) {
    return {.seed = step.seed,
            .kind = static_cast<NoiseKind>(static_cast<int>(step.method[kKind])),
            .element = call.element,
            .count = call.param->numel()};
}

NoiseTerm direction(const StepParams& step, int index, double coefficient) {
    return {.step = static_cast<uint32_t>(step.step),
            .direction = static_cast<uint32_t>(index),
            .coefficient = static_cast<float>(coefficient)};
}

// The update of one step: w <- w - rate / n (g_1 z_1 + ... + g_n z_n) - rate decay w.
struct Pending {
    std::array<NoiseTerm, kDirectionsMax> terms{};
    NoiseStep step{};

    Pending(const ParamSpec& param, const StepParams& params) {
        const int count = static_cast<int>(params.method[kDirections]);
        for (int index = 0; index < count; ++index)
            terms[static_cast<size_t>(index)] =
                direction(params, index, params.learning_rate / count * params.scalars[static_cast<size_t>(index)]);
        step = {.step = static_cast<uint32_t>(params.step),
                .decay = static_cast<float>(param.decay ? params.learning_rate * params.method[kDecay] : 0.0),
                .terms = terms.data(),
                .term_count = count};
    }
};

// The update that is due, and a probe where `probe` is given.
void pass(const ArrivalCall& call, const NoiseTerm* probe, Stream& stream) {
    const bool updates = call.pending != nullptr && call.param->trainable;
    if (!updates && probe == nullptr) return;
    const Pending pending(*call.param, updates ? *call.pending : *call.step);
    // Both points, one behind the other, or the one that is wanted.
    const int64_t bytes = call.point < 0 ? call.param->numel() * dtype_bytes(call.compute) : 0;
    const bool plus = probe != nullptr && call.point != 1, minus = probe != nullptr && call.point != 0;
    const NoisePass all{.type = weight_type(call.param->store_dtype),
                        .weights = call.weights,
                        .updated = updates ? call.weights : nullptr,
                        .steps = &pending.step,
                        .step_count = updates ? 1 : 0,
                        .probe = probe,
                        .probe_type = weight_type(call.compute),
                        .plus = plus ? call.probes : nullptr,
                        .minus = minus ? call.probes + bytes : nullptr};
    update_and_probe(run_of(call, updates ? *call.pending : *call.step), all, stream);
}

// The weights as numbers of another type, piece by piece.
void convert(const ArrivalCall& call, Stream& stream) {
    constexpr int64_t kPiece = 4096;
    const int64_t from = dtype_bytes(call.param->store_dtype), to = dtype_bytes(call.compute);
    const int64_t count = call.param->numel();
    cpu_team(stream).parallel_for((count + kPiece - 1) / kPiece, [&](int64_t piece, int) {
        std::array<float, kPiece> numbers;
        const int64_t first = piece * kPiece, elements = std::min(kPiece, count - first);
        const std::span<float> some(numbers.data(), static_cast<size_t>(elements));
        decode_numbers(call.param->store_dtype, {call.weights + first * from, static_cast<size_t>(elements * from)},
                       some);
        encode_numbers(call.compute, some, {call.plain + first * to, static_cast<size_t>(elements * to)});
    });
}

}  // namespace

void set_noise(const MethodOptions& options, StepParams& step) {
    step.method[kEps] = options.zo_eps;
    step.method[kDecay] = options.weight_decay;
    step.method[kDirections] = options.directions;
    step.method[kKind] = static_cast<double>(options.noise);
}

double draws_of(const MethodOptions& options, int numbers) {
    constexpr double kSigns = 0.4;
    return numbers * (options.noise == NoiseKind::rademacher ? kSigns : 1.0);
}

void arrive_at_points(const ArrivalCall& call, Stream& stream) {
    const NoiseTerm probe = direction(*call.step, call.sweep, call.param->trainable ? call.step->method[kEps] : 0.0);
    pass(call, call.probes != nullptr ? &probe : nullptr, stream);
    if (call.plain != nullptr) convert(call, stream);
}

void arrive_with_tangents(const ArrivalCall& call, Stream& stream) {
    pass(call, nullptr, stream);
    if (call.plain != nullptr) convert(call, stream);
    if (call.probes == nullptr) return;
    const int64_t bytes = call.param->numel() * dtype_bytes(call.compute);
    for (int index = 0; index < static_cast<int>(call.step->method[kDirections]); ++index) {
        const NoiseTerm term = direction(*call.step, index, call.param->trainable ? 1.0 : 0.0);
        write_direction(run_of(call, *call.step), term, weight_type(call.compute), call.probes + index * bytes, stream);
    }
}

bool set_scalars(const MethodOptions& options, std::span<const double> found, StepParams& step) {
    bool finite = true;
    for (size_t index = 0; index < found.size(); ++index) {
        double value = found[index];
        finite = finite && std::isfinite(value);
        if (options.scalar_clip > 0) value = std::clamp(value, -options.scalar_clip, options.scalar_clip);
        step.scalars[index] = static_cast<float>(value);
        finite = finite && std::isfinite(step.scalars[index]);
    }
    return finite;
}

}  // namespace windlass
