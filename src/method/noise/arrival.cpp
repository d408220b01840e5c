#include "method/noise/arrival.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/cpu/cpu_stream.h"
#include "method/noise/exact.h"
#include "method/noise/factors.h"
#include "method/noise/layer_drop.h"
#include "method/noise/noise.h"
#include "model/load.h"

namespace windlass {
namespace {

// Places in StepParams::method; kDecay holds what a step multiplies decayed weights with, as a log keeps it; kExactEps
// the distance of MeZO's own walk, 0 for none, and kWeightDecay what that walk decays by.
enum Place : size_t {
    kEps,
    kDecay,
    kDirections,
    kKind,
    kRank,
    kWindow,
    kKeepsLeft,
    kMoments,
    kReplayed,
    kBeta1,
    kBeta2,
    kEpsilon,
    kLayerDrop,
    kExactEps,
    kWeightDecay
};

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

// Whether a step probes and updates a parameter.
bool moves(const ParamSpec& param, const StepParams& step) {
    return param.trainable && !is_layer_dropped(step.seed, step.step, param.layer, step.method[kLayerDrop]);
}

NoiseTerm direction(const StepParams& step, const NoiseRun& run, int index, double coefficient) {
    return noise_term(noise_in(step), run, step.step, index, coefficient);
}

void set_rule(const MomentRule& rule, StepParams& step) {
    step.method[kMoments] = static_cast<double>(rule.moments);
    step.method[kReplayed] = rule.window;
    step.method[kBeta1] = rule.beta1;
    step.method[kBeta2] = rule.beta2;
    step.method[kEpsilon] = rule.epsilon;
}
MomentRule rule_of(const StepParams& step) {
    return {.moments = static_cast<NoiseMoments>(static_cast<int>(step.method[kMoments])),
            .window = static_cast<int>(step.method[kReplayed]),
            .beta1 = step.method[kBeta1],
            .beta2 = step.method[kBeta2],
            .epsilon = step.method[kEpsilon]};
}

double rate_of(const ParamSpec& param, const StepParams& step) {
    return step.learning_rate * param.learning_rate_scale;
}

// What a step's decay takes away of each weight. The log of a run has what the run's own weight decay leaves; one that
// belongs to the parameter is put the same way, so that equal decays round alike.
double shrinkage(const ParamSpec& param, const StepParams& step) {
    if (!param.decay) return 0.0;
    if (param.weight_decay) return 1.0 - (1.0 - rate_of(param, step) * *param.weight_decay);
    return (1.0 - step.method[kDecay]) * param.learning_rate_scale;
}

// The updates of the last `pending` of some steps, as kernels want them. With u the mean of what a step found along its
// directions, (g_1 z_1 + ... + g_n z_n) / n, each is
//     w <- w - rate u - (1 - decay) w, or with moments: - rate m, - rate m / (sqrt(v) + epsilon)
class Updates {
  public:
    Updates(const ParamSpec& param, const NoiseRun& run, std::span<const StepParams> steps, int pending) : run_(run) {
        WINDLASS_CHECK(pending >= 0 && static_cast<size_t>(pending) <= steps.size(), "{} of {} steps are pending",
                       pending, steps.size());
        for (size_t last = steps.size() - static_cast<size_t>(pending); last < steps.size(); ++last) {
            if (moves(param, steps[last])) add(param, steps.first(last + 1));
        }
        // Only now do their lists stay where they are.
        size_t term = 0, moment = 0;
        for (NoiseStep& step : steps_) {
            step.terms = terms_.data() + term;
            if (step.moment_count > 0) step.moments = moments_.data() + moment;
            term += static_cast<size_t>(step.term_count);
            moment += static_cast<size_t>(step.moment_count);
        }
    }
    Updates(const Updates&) = delete;
    Updates& operator=(const Updates&) = delete;

    const NoiseStep* data() const { return steps_.data(); }
    int64_t count() const { return std::ssize(steps_); }

  private:
    // `scale` times what a step found; along the parameter of a layer that it left alone, that is nothing.
    int64_t add_terms(const ParamSpec& param, const StepParams& step, double scale) {
        if (!moves(param, step)) return 0;
        const int count = directions_of(step);
        for (int index = 0; index < count; ++index)
            terms_.push_back(direction(step, run_, index, scale / count * step.scalars[static_cast<size_t>(index)]));
        return count;
    }

    // The update of the last of these steps.
    void add(const ParamSpec& param, std::span<const StepParams> steps) {
        const StepParams& step = steps.back();
        const MomentRule rule = rule_of(step);
        const double rate = rate_of(param, step);
        const size_t terms_before = terms_.size(), moments_before = moments_.size();
        const int64_t count = std::min<int64_t>(std::max(1, rule.window), std::ssize(steps));
        const std::vector<double> shares = decaying_shares(rule.beta1, count);
        if (rule.moments == NoiseMoments::none) {
            add_terms(param, step, rate);
        } else if (rule.moments == NoiseMoments::first) {
            for (int64_t back = 0; back < count; ++back)
                add_terms(param, steps[steps.size() - 1 - static_cast<size_t>(back)],
                          rate * shares[static_cast<size_t>(back)]);
        } else {
            add_moments(param, steps.last(static_cast<size_t>(count)), shares, decaying_shares(rule.beta2, count));
        }
        steps_.push_back({.step = static_cast<uint32_t>(step.step),
                          .decay = static_cast<float>(shrinkage(param, step)),
                          .term_count = static_cast<int64_t>(terms_.size() - terms_before),
                          .moment_count = static_cast<int64_t>(moments_.size() - moments_before),
                          .epsilon = static_cast<float>(rule.epsilon)});
    }
    // The rate stands in the shares of the first moment.
    void add_moments(const ParamSpec& param, std::span<const StepParams> window, const std::vector<double>& first,
                     const std::vector<double>& second) {
        for (size_t back = 0; back < window.size(); ++back) {
            const StepParams& found = window[window.size() - 1 - back];
            moments_.push_back({.term_count = add_terms(param, found, 1.0),
                                .first = static_cast<float>(rate_of(param, window.back()) * first[back]),
                                .second = static_cast<float>(second[back])});
        }
    }

    const NoiseRun run_;
    std::vector<NoiseTerm> terms_;
    std::vector<NoiseMoment> moments_;
    std::vector<NoiseStep> steps_;
};

// The updates that are due, and a probe where `probe` is given.
void pass(const ArrivalCall& call, const NoiseTerm* probe, Stream& stream) {
    const NoiseRun run = run_of(call, call.pending > 0 ? call.steps.back() : *call.step);
    const Updates due(*call.param, run, call.steps, call.pending);
    const bool updates = due.count() > 0;
    if (!updates && probe == nullptr) return;
    // Both points, one behind the other, or the one that is wanted.
    const int64_t bytes = call.point < 0 ? call.param->numel() * dtype_bytes(call.compute) : 0;
    const bool plus = probe != nullptr && call.point != 1, minus = probe != nullptr && call.point != 0;
    const NoisePass all{.type = weight_type(call.param->store_dtype),
                        .scale_exponent = call.param->scale_exponent,
                        .weights = call.weights,
                        .updated = updates ? call.weights : nullptr,
                        .steps = due.data(),
                        .step_count = due.count(),
                        .probe = probe,
                        .probe_type = weight_type(call.compute),
                        .plus = plus ? call.probes : nullptr,
                        .minus = minus ? call.probes + bytes : nullptr,
                        .masks = std::isfinite(call.param->magnitude_limit),
                        .limit = call.param->magnitude_limit};
    update_and_probe(run, all, stream);
}

// The weights as numbers of the type that is computed with, piece by piece, each of whole blocks.
void copy_weights(const ArrivalCall& call, std::byte* out, Stream& stream) {
    constexpr int64_t kPiece = 4096;
    const ParamSpec& param = *call.param;
    const int64_t count = param.numel(), to = dtype_bytes(call.compute);
    cpu_team(stream).parallel_for((count + kPiece - 1) / kPiece, [&](int64_t piece, int) {
        const int64_t first = piece * kPiece, elements = std::min(kPiece, count - first);
        const std::byte* const from = call.weights + stored_bytes(param.store_dtype, first);
        if (param.store_dtype == DType::nf4)
            return copy_nf4(from, elements, weight_type(call.compute), out + first * to);
        std::array<float, kPiece> numbers;
        const std::span<float> some(numbers.data(), static_cast<size_t>(elements));
        decode_kept(param, {from, static_cast<size_t>(stored_bytes(param.store_dtype, elements))}, some);
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
    const NoiseTerm probe = direction(*call.step, run_of(call, *call.step), call.sweep, call.step->method[kEps]);
    pass(call, probed ? &probe : nullptr, stream);
    if (probes && !probed) copy_points(call, count, stream);
    if (call.plain != nullptr) copy_weights(call, call.plain, stream);
}

// MeZO's own step over a run of a parameter: its drift and its update.
void exact_step_of(const ParamSpec& param, const StepParams& step, const NoiseRun& run, std::byte* weights,
                   Stream& stream) {
    if (!moves(param, step)) return;
    const ExactRates rates{.learning_rate = rate_of(param, step),
                           .g = step.scalars[0],
                           .decay = param.weight_decay.value_or(step.method[kWeightDecay]),
                           .decays = param.decay};
    take_exact_step(run, direction(step, run, 0, 1.0), step.method[kExactEps], rates, weight_type(param.store_dtype),
                    weights, stream);
}

}  // namespace

void set_noise(const MethodOptions& options, StepParams& step) {
    step.method[kEps] = options.zo_eps;
    step.method[kDecay] = 1.0 - step.learning_rate * options.weight_decay;
    step.method[kDirections] = options.directions;
    step.method[kLayerDrop] = options.layer_drop;
    step.method[kExactEps] = options.exact_inplace ? options.zo_eps : 0.0;
    step.method[kWeightDecay] = options.weight_decay;
    set_rule(moment_rule(options), step);
    set_kind(noise_of(options), step);
}

MomentRule moment_rule(const MethodOptions& options) {
    MomentRule rule{.moments = options.moments};
    if (rule.moments == NoiseMoments::none) return rule;
    rule.window = options.replay_window;
    rule.beta1 = options.beta1;
    if (rule.moments == NoiseMoments::first) return rule;
    rule.beta2 = options.beta2;
    rule.epsilon = options.epsilon;
    return rule;
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
    arrive_at(call, 2, stream);
}

void arrive_at_one_point(const ArrivalCall& call, Stream& stream) {
    ArrivalCall one = call;
    one.point = 0;
    arrive_at(one, 1, stream);
}

void arrive_exactly(const ArrivalCall& call, Stream& stream) {
    for (const StepParams& step : call.steps.last(static_cast<size_t>(call.pending)))
        exact_step_of(*call.param, step, run_of(call, step), call.weights, stream);
    if (call.plain != nullptr) copy_weights(call, call.plain, stream);
    if (call.probes == nullptr) return;
    if (!moves(*call.param, *call.step)) return copy_points(call, 2, stream);
    const int64_t bytes = call.point < 0 ? call.param->numel() * dtype_bytes(call.compute) : 0;
    const NoiseRun run = run_of(call, *call.step);
    write_exact_points(run, direction(*call.step, run, 0, 1.0), call.step->method[kEps],
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
    const NoiseRun run = run_of(call, *call.step);
    const int count = directions_of(*call.step);
    const int64_t bytes = call.param->numel() * dtype_bytes(call.compute);
    if (!moves(*call.param, *call.step)) {
        const int64_t factors = 4 * run.rank * (run.rows + run.cols);
        std::memset(call.probes, 0, static_cast<size_t>(count * (run.kind == NoiseKind::low_rank ? factors : bytes)));
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
    set_rule(update.rule, step);
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
            .noise = noise_in(step),
            .rule = rule_of(step),
            .layer_drop = step.method[kLayerDrop],
            .exact_eps = step.method[kExactEps],
            .weight_decay = step.method[kWeightDecay],
            .scalars = std::span(step.scalars).first(static_cast<size_t>(directions_of(step)))};
}

void update_by_steps(const UpdatedElements& elements, std::span<const StepParams> steps, int pending, Stream& stream) {
    if (pending == 0) return;
    const NoiseRun run = noise_run(noise_in(steps.back()), steps.back().seed, *elements.param,
                                   elements.element - elements.first, elements.first, elements.count);
    if (steps.back().method[kExactEps] > 0) {
        for (const StepParams& step : steps.last(static_cast<size_t>(pending)))
            exact_step_of(*elements.param, step, run, elements.weights, stream);
        return;
    }
    const Updates updates(*elements.param, run, steps, pending);
    if (updates.count() == 0) return;
    update_and_probe(run,
                     {.type = weight_type(elements.param->store_dtype),
                      .scale_exponent = elements.param->scale_exponent,
                      .weights = elements.weights,
                      .updated = elements.weights,
                      .steps = updates.data(),
                      .step_count = updates.count(),
                      .masks = std::isfinite(elements.param->magnitude_limit),
                      .limit = elements.param->magnitude_limit},
                     stream);
}

}  // namespace windlass
