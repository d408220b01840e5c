#include "method/forward_only/updates.h"

#include <algorithm>

namespace windlass {

NoiseUpdates::NoiseUpdates(const Param& param, const NoiseRun& run, std::span<const StepParams> steps, int deferred,
                           const LowRankSum* sum)
    : run_(run) {
    WINDLASS_CHECK(deferred >= 0 && static_cast<size_t>(deferred) <= steps.size(), "{} of {} steps are deferred",
                   deferred, steps.size());
    switch (param.perturb.merge) {
        case Merge::each_step:
            add_each(param, steps, deferred);
            break;
        case Merge::per_window:
            add_windows(param, steps.last(static_cast<size_t>(deferred)));
            break;
        case Merge::never:
            if (sum != nullptr && !sum->scales.empty()) add_sum(*sum);
            break;
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

void NoiseUpdates::add_each(const Param& param, std::span<const StepParams> steps, int deferred) {
    for (size_t last = steps.size() - static_cast<size_t>(deferred); last < steps.size(); ++last) {
        if (moves(param, steps[last])) add(param, steps.first(last + 1));
    }
}

void NoiseUpdates::add_windows(const Param& param, std::span<const StepParams> steps) {
    while (!steps.empty()) {
        const int64_t window = steps[0].perturb().noise.window, start = window_start(steps[0].step, window);
        const auto in_window = [&](const StepParams& step) { return window_start(step.step, window) == start; };
        const auto count = static_cast<size_t>(std::ranges::find_if_not(steps, in_window) - steps.begin());
        add_window(param, steps.first(count));
        steps = steps.subspan(count);
    }
}

// The steps of one window, or of its beginning: what each found, less what those after it take away of it.
void NoiseUpdates::add_window(const Param& param, std::span<const StepParams> steps) {
    std::vector<double> left(steps.size() + 1, 1.0);
    for (size_t index = steps.size(); index-- > 0;)
        left[index] =
            left[index + 1] * (moves(param, steps[index]) ? 1.0 - shrinkage(param.training, steps[index]) : 1.0);
    const Noise noise = steps[0].perturb().noise;
    const size_t before = terms_.size();
    std::vector<NoiseTerm> terms;
    for (int j = 0; j < steps[0].perturb().directions; ++j) {
        terms.clear();
        for (size_t index = 0; index < steps.size(); ++index) {
            const StepParams& step = steps[index];
            if (!moves(param, step)) continue;
            const double mean = rate_of(param.training, step) / step.perturb().directions *
                                step.perturb().scalars[static_cast<size_t>(j)];
            terms.push_back(noise_term(noise, run_, step.step, j, mean * left[index + 1]));
        }
        if (run_.keeps_left && !terms.empty())
            add_scaled(terms);
        else
            terms_.insert(terms_.end(), terms.begin(), terms.end());
    }
    if (terms_.size() == before) return;
    steps_.push_back({.step = static_cast<uint32_t>(steps.back().step),
                      .decay = static_cast<float>(1.0 - left[0]),
                      .term_count = static_cast<int64_t>(terms_.size() - before),
                      .adds_left = run_.kind == NoiseKind::low_rank && !run_.keeps_left});
}

// Terms with kept u and v become one, with the sum of their coefficients.
void NoiseUpdates::add_scaled(std::span<const NoiseTerm> terms) {
    std::vector<float>& sum = scales_.emplace_back(static_cast<size_t>(run_.rank), 0.0f);
    std::array<float, kDirectionRankMax> drawn;
    for (const NoiseTerm& term : terms) {
        draw_scales(run_, term, drawn.data());
        for (size_t k = 0; k < sum.size(); ++k) sum[k] += term.coefficient * drawn[k];
    }
    NoiseTerm one = terms[0];
    one.coefficient = 1;
    one.scales = sum.data();
    terms_.push_back(one);
}

void NoiseUpdates::add_sum(const LowRankSum& sum) {
    const auto directions = std::ssize(sum.scales) / sum.rank;
    for (int64_t j = 0; j < directions; ++j) {
        NoiseTerm term = noise_term(sum.noise, run_, 1, static_cast<int>(j), 0);
        term.coefficient = 1;
        term.scales = sum.scales.data() + j * sum.rank;
        terms_.push_back(term);
    }
    steps_.push_back({.decay = static_cast<float>(1.0 - sum.kept), .term_count = directions});
}

// `scale` times what a step found; along the parameter of a layer that it left alone, that is nothing.
int64_t NoiseUpdates::add_terms(const Param& param, const StepParams& step, double scale) {
    if (!moves(param, step)) return 0;
    const int count = step.perturb().directions;
    for (int index = 0; index < count; ++index)
        terms_.push_back(noise_term(step.perturb().noise, run_, step.step, index,
                                    scale / count * step.perturb().scalars[static_cast<size_t>(index)]));
    return count;
}

// The update of the last of these steps.
void NoiseUpdates::add(const Param& param, std::span<const StepParams> steps) {
    const StepParams& step = steps.back();
    const MomentRule rule = step.perturb().rule;
    const double rate = rate_of(param.training, step);
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
                      .decay = static_cast<float>(shrinkage(param.training, step)),
                      .term_count = static_cast<int64_t>(terms_.size() - terms_before),
                      .moment_count = static_cast<int64_t>(moments_.size() - moments_before),
                      .epsilon = static_cast<float>(rule.epsilon)});
}

// The rate is in the shares of the first moment.
void NoiseUpdates::add_moments(const Param& param, std::span<const StepParams> window, const std::vector<double>& first,
                               const std::vector<double>& second) {
    for (size_t back = 0; back < window.size(); ++back) {
        const StepParams& found = window[window.size() - 1 - back];
        moments_.push_back({.term_count = add_terms(param, found, 1.0),
                            .first = static_cast<float>(rate_of(param.training, window.back()) * first[back]),
                            .second = static_cast<float>(second[back])});
    }
}

}  // namespace windlass
