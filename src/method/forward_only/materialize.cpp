#include "method/forward_only/materialize.h"

#include <algorithm>
#include <cmath>

#include "method/forward_only/updates.h"
#include "perturb/weight_op.h"

namespace windlass {
namespace {

// The whole parameter.
NoiseRun run_of(const MaterializeCall& call, const StepParams& step) {
    return noise_run(step.perturb().noise, step.seed, call.param.spec, call.element, 0, call.param.numel());
}

NoiseTerm direction(const StepParams& step, const NoiseRun& run, int index, double coefficient) {
    return noise_term(step.perturb().noise, run, step.step, index, coefficient);
}

// Whether updates are to stay out of the numbers that are kept.
bool is_open(const MaterializeCall& call) {
    return call.param.perturb.merge == Merge::never || (call.param.perturb.merge == Merge::per_window && !call.merges);
}

// What the updates that are due are drawn from.
NoiseRun due_run(const MaterializeCall& call) {
    if (call.sum == nullptr || call.sum->scales.empty())
        return run_of(call, call.deferred > 0 ? call.steps.back() : *call.step);
    return noise_run(call.sum->noise, call.sum->seed, call.param.spec, call.element, 0, call.param.numel());
}

// The updates that are due, a probe where `probe` is given, and the weights in the type that is computed with where
// `plain` is.
void pass(const MaterializeCall& call, const NoiseTerm* probe, std::byte* plain, Stream& stream) {
    const NoiseRun run = due_run(call);
    const NoiseUpdates due(call.param, run, call.steps, call.deferred, call.sum);
    const bool updates = due.count() > 0;
    if (!updates && probe == nullptr && plain == nullptr) return;
    // Both points, one after the other, or the one that is needed.
    const int64_t bytes = call.point < 0 ? call.param.numel() * dtype_bytes(call.compute) : 0;
    const bool plus = probe != nullptr && call.point != 1, minus = probe != nullptr && call.point != 0;
    const NoisePass all{.type = weight_type(call.param.storage.dtype),
                        .scale_exponent = call.param.storage.scale_exponent,
                        .weights = call.weights,
                        .updated = updates && !is_open(call) ? call.weights : nullptr,
                        .steps = due.data(),
                        .step_count = due.count(),
                        .probe = probe,
                        .probe_type = weight_type(call.compute),
                        .plus = plus ? call.probes : nullptr,
                        .minus = minus ? call.probes + bytes : nullptr,
                        .plain = plain,
                        .masks = std::isfinite(call.param.perturb.magnitude_limit),
                        .limit = call.param.perturb.magnitude_limit};
    update_and_probe(run, all, stream);
}

// What is computed with where nothing is probed, of weights that have the updates that are stored in them.
void write_plain(const MaterializeCall& call, std::byte* out, Stream& stream) {
    if (is_open(call))
        pass(call, nullptr, out, stream);
    else
        kCopyWeights({.count = call.param.numel()},
                     {.type = weight_type(call.param.storage.dtype),
                      .scale_exponent = call.param.storage.scale_exponent,
                      .weights = call.weights,
                      .probe_type = weight_type(call.compute),
                      .plain = out},
                     stream);
}

// Points of weights that are not probed: the weights themselves, and no noise is drawn for them.
void copy_points(const MaterializeCall& call, int count, Stream& stream) {
    const int64_t bytes = call.param.numel() * dtype_bytes(call.compute);
    for (int point = 0; point < (call.point < 0 ? count : 1); ++point)
        write_plain(call, call.probes + point * bytes, stream);
}

// `count` points along the direction of the pass.
void materialize_at(const MaterializeCall& call, int count, Stream& stream) {
    const bool probes = call.probes != nullptr, probed = probes && moves(call.param, *call.step);
    const NoiseTerm probe = direction(*call.step, run_of(call, *call.step), call.pass, call.step->perturb().eps);
    if (probed || !is_open(call)) pass(call, probed ? &probe : nullptr, nullptr, stream);
    if (probes && !probed) copy_points(call, count, stream);
    if (call.plain != nullptr) write_plain(call, call.plain, stream);
}

}  // namespace

std::function<double(const Param&, int, double)> draws_of(const MethodOptions& options, std::vector<int> perturbed) {
    const Noise noise = noise_of(options);
    const double update = options.directions * moment_rule(options).window, layers = 1 - options.layer_drop;
    return [noise, update, layers, directions = options.directions, perturbed = std::move(perturbed)](
               const Param& param, int pass, double updates) {
        if (!param.trains()) return 0.0;
        const WeightWork work{.noise = noise,
                              .stored = param.storage.dtype,
                              .drawn = (pass < 0 ? 0 : perturbed[static_cast<size_t>(pass)]) + updates * update,
                              .sums = param.keeps_sum() ? static_cast<double>(directions) : 0,
                              .rounds = updates};
        return (param.spec.layer < 0 ? 1.0 : layers) * kPerturbWeights.draws(work);
    };
}

void materialize_points(const MaterializeCall& call, Stream& stream) {
    materialize_at(call, 2, stream);
}

void materialize_point(const MaterializeCall& call, Stream& stream) {
    MaterializeCall one = call;
    one.point = 0;
    materialize_at(one, 1, stream);
}

void materialize_tangents(const MaterializeCall& call, Stream& stream) {
    if (!is_open(call)) pass(call, nullptr, nullptr, stream);
    if (call.plain != nullptr) write_plain(call, call.plain, stream);
    if (call.probes == nullptr) return;
    const NoiseRun run = run_of(call, *call.step);
    const int count = call.step->perturb().directions;
    const int64_t bytes = call.param.numel() * dtype_bytes(call.compute);
    if (!moves(call.param, *call.step)) {
        const int64_t factors = 4 * run.rank * (run.rows + run.cols);
        stream.clear(call.probes, count * (run.kind == NoiseKind::low_rank ? factors : bytes));
        return;
    }
    for (int index = 0; index < count; ++index) {
        const NoiseTerm term = direction(*call.step, run, index, 1.0);
        if (run.kind == NoiseKind::low_rank) {
            float* const left = reinterpret_cast<float*>(call.probes);
            float* const right = left + count * run.rank * run.rows;
            write_factors(run, term, left + index * run.rank * run.rows, right + index * run.rank * run.cols, stream);
        } else {
            write_direction(run, term, weight_type(call.compute), call.probes + index * bytes, stream);
        }
    }
}

double set_scalars(const MethodOptions& options, std::span<const double> found, StepParams& step) {
    std::array<float, kDirectionsMax>& scalars = step.perturb().scalars;
    for (size_t index = 0; index < found.size(); ++index) {
        double value = found[index];
        step.apply = step.apply && std::isfinite(value);
        if (options.scalar_clip > 0) value = std::clamp(value, -options.scalar_clip, options.scalar_clip);
        scalars[index] = static_cast<float>(value);
        step.apply = step.apply && std::isfinite(scalars[index]);
    }
    return scalars[0];
}

void update_by_steps(const UpdatedElements& elements, std::span<const StepParams> steps, int deferred, Stream& stream) {
    if (deferred == 0) return;
    const NoiseRun run = noise_run(steps.back().perturb().noise, steps.back().seed, elements.param.spec,
                                   elements.element - elements.first, elements.first, elements.count);
    const NoiseUpdates updates(elements.param, run, steps, deferred, nullptr);
    if (updates.count() == 0) return;
    update_and_probe(run,
                     {.type = weight_type(elements.param.storage.dtype),
                      .scale_exponent = elements.param.storage.scale_exponent,
                      .weights = elements.weights,
                      .updated = elements.weights,
                      .steps = updates.data(),
                      .step_count = updates.count(),
                      .masks = std::isfinite(elements.param.perturb.magnitude_limit),
                      .limit = elements.param.perturb.magnitude_limit},
                     stream);
}

void read_updated(const UpdatedElements& elements, std::span<const StepParams> steps, int deferred,
                  const LowRankSum* sum, std::span<float> numbers, Stream& stream) {
    WINDLASS_CHECK(std::ssize(numbers) == elements.count, "{} numbers of {}", numbers.size(), elements.count);
    const bool has_sum = sum != nullptr && !sum->scales.empty();
    const Noise noise = has_sum ? sum->noise : deferred > 0 ? steps.back().perturb().noise : Noise();
    const NoiseRun run =
        noise_run(noise,
                  has_sum        ? sum->seed
                  : deferred > 0 ? steps.back().seed
                                 : 0,
                  elements.param.spec, elements.element - elements.first, elements.first, elements.count);
    const NoiseUpdates updates(elements.param, run, steps, deferred, sum);
    update_and_probe(run,
                     {.type = weight_type(elements.param.storage.dtype),
                      .scale_exponent = elements.param.storage.scale_exponent,
                      .weights = elements.weights,
                      .updated = nullptr,
                      .steps = updates.data(),
                      .step_count = updates.count(),
                      .probe_type = WeightType::f32,
                      .plain = numbers.data(),
                      .masks = std::isfinite(elements.param.perturb.magnitude_limit),
                      .limit = elements.param.perturb.magnitude_limit},
                     stream);
}

}  // namespace windlass
