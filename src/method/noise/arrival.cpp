#include "method/noise/arrival.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "method/noise/factors.h"
#include "method/noise/noise.h"
#include "model/load.h"

namespace windlass {
namespace {

// Places in StepParams::method; kDecay holds what a step multiplies decayed weights with, as a log keeps it.
enum Place : size_t { kEps, kDecay, kDirections, kKind, kRank, kWindow, kKeepsLeft };

void set_kind(const Noise& noise, StepParams& step) {
    step.method[kKind] = static_cast<double>(noise.kind);
    step.method[kRank] = static_cast<double>(noise.rank);
    step.method[kWindow] = static_cast<double>(noise.window);
    step.method[kKeepsLeft] = noise.keeps_left ? 1 : 0;
}
Noise noise_in(const StepParams& step) {
    return {.kind = static_cast<NoiseKind>(static_cast<int>(step.method[kKind])),
            .rank = static_cast<int64_t>(step.method[kRank]),
            .window = static_cast<int64_t>(step.method[kWindow]),
            .keeps_left = step.method[kKeepsLeft] != 0};
}

// The whole parameter.
NoiseRun run_of(const ArrivalCall& call, const StepParams& step) {
    return noise_run(noise_in(step), step.seed, *call.param, call.element, 0, call.param->numel());
}

int directions_of(const StepParams& step) {
    return static_cast<int>(step.method[kDirections]);
}

NoiseTerm direction(const StepParams& step, const NoiseRun& run, int index, double coefficient) {
    return noise_term(noise_in(step), run, step.step, index, coefficient);
}

// The update of one step: w <- w - rate / n (g_1 z_1 + ... + g_n z_n) - (1 - decay) w. Its terms go to the head of
// `terms`, which outlives what is returned.
NoiseStep update_of(const ParamSpec& param, const NoiseRun& run, const StepParams& params, std::span<NoiseTerm> terms) {
    const int count = directions_of(params);
    for (int index = 0; index < count; ++index) {
        const auto i = static_cast<size_t>(index);
        terms[i] = direction(params, run, index, params.learning_rate / count * params.scalars[i]);
    }
    return {.step = static_cast<uint32_t>(params.step),
            .decay = static_cast<float>(param.decay ? 1.0 - params.method[kDecay] : 0.0),
            .terms = terms.data(),
            .term_count = count};
}

// The update that is due, and a probe where `probe` is given.
void pass(const ArrivalCall& call, const NoiseTerm* probe, Stream& stream) {
    const bool updates = call.pending != nullptr && call.param->trainable;
    if (!updates && probe == nullptr) return;
    const NoiseRun run = run_of(call, updates ? *call.pending : *call.step);
    std::array<NoiseTerm, kDirectionsMax> terms{};
    const NoiseStep update = updates ? update_of(*call.param, run, *call.pending, terms) : NoiseStep{};
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
                        .minus = minus ? call.probes + bytes : nullptr};
    update_and_probe(run, all, stream);
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
    step.method[kDecay] = 1.0 - step.learning_rate * options.weight_decay;
    step.method[kDirections] = options.directions;
    set_kind(noise_of(options), step);
}

Noise noise_of(const MethodOptions& options) {
    if (options.noise != NoiseKind::low_rank) return {.kind = options.noise};
    return {.kind = options.noise,
            .rank = options.noise_rank,
            .window = options.noise_window,
            .keeps_left = options.noise_keeps_left};
}

double draws_of(const MethodOptions& options, int numbers) {
    constexpr double kSigns = 0.4, kFactors = 0.25, kRank = 0.05;
    switch (options.noise) {
        case NoiseKind::rademacher:
            return numbers * kSigns;
        case NoiseKind::low_rank:
            return numbers * (kFactors + kRank * options.noise_rank);
        default:
            return numbers;
    }
}

void arrive_at_points(const ArrivalCall& call, Stream& stream) {
    const NoiseTerm probe = direction(*call.step, run_of(call, *call.step), call.sweep,
                                      call.param->trainable ? call.step->method[kEps] : 0.0);
    pass(call, call.probes != nullptr ? &probe : nullptr, stream);
    if (call.plain != nullptr) convert(call, stream);
}

void arrive_with_tangents(const ArrivalCall& call, Stream& stream) {
    pass(call, nullptr, stream);
    if (call.plain != nullptr) convert(call, stream);
    if (call.probes == nullptr) return;
    const NoiseRun run = run_of(call, *call.step);
    const int count = directions_of(*call.step);
    const int64_t bytes = call.param->numel() * dtype_bytes(call.compute);
    for (int index = 0; index < count; ++index) {
        const NoiseTerm term = direction(*call.step, run, index, call.param->trainable ? 1.0 : 0.0);
        if (run.kind == NoiseKind::low_rank) {
            float* const left = reinterpret_cast<float*>(call.probes);
            float* const right = left + count * run.rank * run.rows;
            write_factors(run, term, left + index * run.rank * run.rows, right + index * run.rank * run.cols, stream);
        } else {
            write_direction(run, term, weight_type(call.compute), call.probes + index * bytes, stream);
        }
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
    set_kind(update.noise, step);
    std::copy(update.scalars.begin(), update.scalars.end(), step.scalars.begin());
    return step;
}

NoiseUpdate noise_update(const StepParams& step) {
    return {.seed = step.seed,
            .step = step.step,
            .learning_rate = step.learning_rate,
            .decay = step.method[kDecay],
            .noise = noise_in(step),
            .scalars = std::span(step.scalars).first(static_cast<size_t>(directions_of(step)))};
}

void update_by_steps(const UpdatedElements& elements, std::span<const StepParams> steps, Stream& stream) {
    if (steps.empty() || !elements.param->trainable) return;
    size_t term_count = 0;
    for (const StepParams& step : steps) term_count += static_cast<size_t>(directions_of(step));
    std::vector<NoiseTerm> terms(term_count);
    std::vector<NoiseStep> updates;
    std::span<NoiseTerm> left = terms;
    const NoiseRun run = noise_run(noise_in(steps.front()), steps.front().seed, *elements.param,
                                   elements.element - elements.first, elements.first, elements.count);
    for (const StepParams& step : steps) {
        updates.push_back(update_of(*elements.param, run, step, left));
        left = left.subspan(static_cast<size_t>(directions_of(step)));
    }
    update_and_probe(run,
                     {.type = weight_type(elements.param->store_dtype),
                      .weights = elements.weights,
                      .updated = elements.weights,
                      .steps = updates.data(),
                      .step_count = std::ssize(updates)},
                     stream);
}

}  // namespace windlass
