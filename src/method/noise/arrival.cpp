#include "method/noise/arrival.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/cpu_stream.h"
#include "method/noise/exact.h"
#include "method/noise/layer_drop.h"
#include "method/noise/noise.h"
#include "model/load.h"

namespace windlass {
namespace {

// Places in StepParams::method; kDecay holds what a step multiplies decayed weights with, as a log keeps it; kExactEps
// the distance of MeZO's own walk, 0 for none, and kWeightDecay what that walk decays by.
enum Place : size_t { kEps, kDecay, kDirections, kKind, kLayerDrop, kExactEps, kWeightDecay };

NoiseRun run_of(const StepParams& step, int64_t element, int64_t count) {
    return {.seed = step.seed,
            .kind = static_cast<NoiseKind>(static_cast<int>(step.method[kKind])),
            .element = element,
            .count = count};
}
NoiseRun run_of(const ArrivalCall& call, const StepParams& step) {
    return run_of(step, call.element, call.param->numel());
}

int directions_of(const StepParams& step) {
    return static_cast<int>(step.method[kDirections]);
}

// Whether a step probes and updates a parameter.
bool moves(const ParamSpec& param, const StepParams& step) {
    return param.trainable && !is_layer_dropped(step.seed, step.step, param.layer, step.method[kLayerDrop]);
}

NoiseTerm direction(const StepParams& step, int index, double coefficient) {
    return {.step = static_cast<uint32_t>(step.step),
            .direction = static_cast<uint32_t>(index),
            .coefficient = static_cast<float>(coefficient)};
}

// The update of one step: w <- w - rate / n (g_1 z_1 + ... + g_n z_n) - (1 - decay) w. Its terms go to the head of
// `terms`, which outlives what is returned.
NoiseStep update_of(const ParamSpec& param, const StepParams& params, std::span<NoiseTerm> terms) {
    const int count = directions_of(params);
    for (int index = 0; index < count; ++index) {
        const auto i = static_cast<size_t>(index);
        terms[i] = direction(params, index, params.learning_rate / count * params.scalars[i]);
    }
    return {.step = static_cast<uint32_t>(params.step),
            .decay = static_cast<float>(param.decay ? 1.0 - params.method[kDecay] : 0.0),
            .terms = terms.data(),
            .term_count = count};
}

// The update that is due, and a probe where `probe` is given.
void pass(const ArrivalCall& call, const NoiseTerm* probe, Stream& stream) {
    const bool updates = call.pending != nullptr && moves(*call.param, *call.pending);
    if (!updates && probe == nullptr) return;
    std::array<NoiseTerm, kDirectionsMax> terms{};
    const NoiseStep update = updates ? update_of(*call.param, *call.pending, terms) : NoiseStep{};
    // Both points, one behind the other, or the one that is wanted.
    const int64_t bytes = call.point < 0 ? call.param->numel() * dtype_bytes(call.compute) : 0;
    const bool plus = probe != nullptr && call.point != 1, minus = probe != nullptr && call.point != 0;
    const NoisePass all{.type = weight_type(call.param->store_dtype),
                        .weights = call.weights,
                        .updated = updates ? call.weights : nullptr,
                        .steps = &update,
                        .step_count = updates ? 1 : 0,
                        .probe = probe,
                        .probe_type = weight_type(call.compute),
                        .plus = plus ? call.probes : nullptr,
                        .minus = minus ? call.probes + bytes : nullptr,
                        .masks = std::isfinite(call.param->magnitude_limit),
                        .limit = call.param->magnitude_limit};
    update_and_probe(run_of(call, updates ? *call.pending : *call.step), all, stream);
}

// The weights as numbers of the type that is computed with, piece by piece.
void copy_weights(const ArrivalCall& call, std::byte* out, Stream& stream) {
    constexpr int64_t kPiece = 4096;
    const int64_t from = dtype_bytes(call.param->store_dtype), to = dtype_bytes(call.compute);
    const int64_t count = call.param->numel();
    cpu_team(stream).parallel_for((count + kPiece - 1) / kPiece, [&](int64_t piece, int) {
        std::array<float, kPiece> numbers;
        const int64_t first = piece * kPiece, elements = std::min(kPiece, count - first);
        const std::span<float> some(numbers.data(), static_cast<size_t>(elements));
        decode_numbers(call.param->store_dtype, {call.weights + first * from, static_cast<size_t>(elements * from)},
                       some);
        encode_numbers(call.compute, some, {out + first * to, static_cast<size_t>(elements * to)});
    });
}

// Points of weights that are not probed: the weights themselves, and no noise is drawn.
void copy_points(const ArrivalCall& call, int count, Stream& stream) {
    const int64_t bytes = call.param->numel() * dtype_bytes(call.compute);
    for (int point = 0; point < (call.point < 0 ? count : 1); ++point)
        copy_weights(call, call.probes + point * bytes, stream);
}

// `count` points along the direction of the sweep.
void arrive_at(const ArrivalCall& call, int count, Stream& stream) {
    const bool probes = call.probes != nullptr, probed = probes && moves(*call.param, *call.step);
    const NoiseTerm probe = direction(*call.step, call.sweep, call.step->method[kEps]);
    pass(call, probed ? &probe : nullptr, stream);
    if (probes && !probed) copy_points(call, count, stream);
    if (call.plain != nullptr) copy_weights(call, call.plain, stream);
}

// MeZO's own step over a run of a parameter: its drift and its update.
void exact_step_of(const ParamSpec& param, const StepParams& step, const NoiseRun& run, std::byte* weights,
                   Stream& stream) {
    const ExactRates rates{.learning_rate = step.learning_rate,
                           .g = step.scalars[0],
                           .decay = step.method[kWeightDecay],
                           .decays = param.decay};
    take_exact_step(run, direction(step, 0, 1.0), step.method[kExactEps], rates, weight_type(param.store_dtype),
                    weights, stream);
}

}  // namespace

void set_noise(const MethodOptions& options, StepParams& step) {
    step.method[kEps] = options.zo_eps;
    step.method[kDecay] = 1.0 - step.learning_rate * options.weight_decay;
    step.method[kDirections] = options.directions;
    step.method[kKind] = static_cast<double>(options.noise);
    step.method[kLayerDrop] = options.layer_drop;
    step.method[kExactEps] = options.exact_inplace ? options.zo_eps : 0.0;
    step.method[kWeightDecay] = options.weight_decay;
}

double draws_of(const MethodOptions& options, int numbers) {
    constexpr double kSigns = 0.4;
    return numbers * (options.noise == NoiseKind::rademacher ? kSigns : 1.0);
}

void arrive_at_points(const ArrivalCall& call, Stream& stream) {
    arrive_at(call, 2, stream);
}

void arrive_at_one_point(const ArrivalCall& call, Stream& stream) {
    ArrivalCall one = call;
    one.point = 0;
    arrive_at(one, 1, stream);
}

void arrive_exactly(const ArrivalCall& call, Stream& stream) {
    if (call.pending != nullptr && moves(*call.param, *call.pending))
        exact_step_of(*call.param, *call.pending, run_of(call, *call.pending), call.weights, stream);
    if (call.plain != nullptr) copy_weights(call, call.plain, stream);
    if (call.probes == nullptr) return;
    if (!moves(*call.param, *call.step)) return copy_points(call, 2, stream);
    const int64_t bytes = call.point < 0 ? call.param->numel() * dtype_bytes(call.compute) : 0;
    write_exact_points(run_of(call, *call.step), direction(*call.step, 0, 1.0), call.step->method[kEps],
                       {.stored = call.param->store_dtype,
                        .weights = call.weights,
                        .compute = call.compute,
                        .plus = call.point != 1 ? call.probes : nullptr,
                        .minus = call.point != 0 ? call.probes + bytes : nullptr},
                       stream);
}

void arrive_with_tangents(const ArrivalCall& call, Stream& stream) {
    pass(call, nullptr, stream);
    if (call.plain != nullptr) copy_weights(call, call.plain, stream);
    if (call.probes == nullptr) return;
    const int64_t bytes = call.param->numel() * dtype_bytes(call.compute);
    if (!moves(*call.param, *call.step)) {
        std::memset(call.probes, 0, static_cast<size_t>(directions_of(*call.step) * bytes));
        return;
    }
    for (int index = 0; index < directions_of(*call.step); ++index) {
        const NoiseTerm term = direction(*call.step, index, 1.0);
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

StepParams params_of(const NoiseUpdate& update) {
    WINDLASS_CHECK(update.scalars.size() <= size_t{kDirectionsMax}, "a step of {} directions", update.scalars.size());
    StepParams step{.seed = update.seed, .step = update.step, .learning_rate = update.learning_rate};
    step.method[kDecay] = update.decay;
    step.method[kDirections] = static_cast<double>(update.scalars.size());
    step.method[kKind] = static_cast<double>(update.kind);
    step.method[kLayerDrop] = update.layer_drop;
    step.method[kExactEps] = update.exact_eps;
    step.method[kWeightDecay] = update.weight_decay;
    std::copy(update.scalars.begin(), update.scalars.end(), step.scalars.begin());
    return step;
}

NoiseUpdate noise_update(const StepParams& step) {
    return {.seed = step.seed,
            .step = step.step,
            .learning_rate = step.learning_rate,
            .decay = step.method[kDecay],
            .kind = static_cast<NoiseKind>(static_cast<int>(step.method[kKind])),
            .layer_drop = step.method[kLayerDrop],
            .exact_eps = step.method[kExactEps],
            .weight_decay = step.method[kWeightDecay],
            .scalars = std::span(step.scalars).first(static_cast<size_t>(directions_of(step)))};
}

void update_by_steps(const UpdatedElements& elements, std::span<const StepParams> steps, Stream& stream) {
    size_t term_count = 0;
    for (const StepParams& step : steps) term_count += static_cast<size_t>(directions_of(step));
    std::vector<NoiseTerm> terms(term_count);
    std::vector<NoiseStep> updates;
    std::span<NoiseTerm> left = terms;
    for (const StepParams& step : steps) {
        if (!moves(*elements.param, step)) continue;
        if (step.method[kExactEps] > 0) {
            exact_step_of(*elements.param, step, run_of(step, elements.element, elements.count), elements.weights,
                          stream);
            continue;
        }
        updates.push_back(update_of(*elements.param, step, left));
        left = left.subspan(static_cast<size_t>(directions_of(step)));
    }
    if (updates.empty()) return;
    update_and_probe(run_of(steps.front(), elements.element, elements.count),
                     {.type = weight_type(elements.param->store_dtype),
                      .weights = elements.weights,
                      .updated = elements.weights,
                      .steps = updates.data(),
                      .step_count = std::ssize(updates),
                      .masks = std::isfinite(elements.param->magnitude_limit),
                      .limit = elements.param->magnitude_limit},
                     stream);
}

}  // namespace windlass
