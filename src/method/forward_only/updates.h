// updates.h: the updates of some steps over one parameter, in the form that the kernels of noise.h take.
//
// With u the mean of a step's slopes along its directions, (g_1 z_1 + ... + g_n z_n) / n, each is
//     w <- w - rate u - (1 - decay) w, or with moments: - rate m, - rate m / (sqrt(v) + epsilon)
// and those of the steps of one window, where they are merged together, are one: the sum of them.
#pragma once

#include "method/forward_only/step_numbers.h"
#include "method/forward_only/sums.h"

namespace windlass {

class NoiseUpdates {
  public:
    // The last `deferred` of `steps` (MaterializeCall::steps); of a parameter that is never merged what `sum` says
    // instead. `run` may be any part of the parameter.
    NoiseUpdates(const Param& param, const NoiseRun& run, std::span<const StepParams> steps, int deferred,
                 const LowRankSum* sum);
    NoiseUpdates(const NoiseUpdates&) = delete;
    NoiseUpdates& operator=(const NoiseUpdates&) = delete;

    const NoiseStep* data() const { return steps_.data(); }
    int64_t count() const { return std::ssize(steps_); }

  private:
    void add_each(const Param& param, std::span<const StepParams> steps, int deferred);
    void add_windows(const Param& param, std::span<const StepParams> steps);
    void add_window(const Param& param, std::span<const StepParams> steps);
    void add_sum(const LowRankSum& sum);
    void add(const Param& param, std::span<const StepParams> steps);
    void add_moments(const Param& param, std::span<const StepParams> window, const std::vector<double>& first,
                     const std::vector<double>& second);
    int64_t add_terms(const Param& param, const StepParams& step, double scale);
    void add_scaled(std::span<const NoiseTerm> terms);

    const NoiseRun run_;
    std::vector<NoiseTerm> terms_;
    std::vector<NoiseMoment> moments_;
    std::vector<NoiseStep> steps_;
    std::vector<std::vector<float>> scales_;  // that terms point to
};

}  // namespace windlass
