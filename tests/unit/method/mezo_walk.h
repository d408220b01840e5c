// mezo_walk.h: a step as the program of MeZO takes it (Malladi et al., NeurIPS 2023: zo_perturb_parameters and
// zo_update): weights are moved in place, and the result of every operation is rounded to their type.
//
// Three moves by +1, -2 and +1 times eps z do not bring the weights back. That drift belongs to the program, not to the
// method: what is tested against it allows for it.
#pragma once

#include <span>

#include "tests/unit/perturb/noise_reference.h"

namespace windlass {

class MezoWalk {
  public:
    explicit MezoWalk(WeightType type) : type_(type) {}

    // w <- w + (scale z) eps. z: the direction, in f32.
    void perturb(std::span<const float> z, double scale, double eps, Stored& weights) const {
        for (int64_t i = 0; i < weights.count(); ++i)
            weights.set(i, weights[i] + product(eps, product(scale, drawn(z, i))));
    }
    // w <- w - rate (g z + decay w). Norms and biases take the formula without decay, which rounds otherwise:
    // w <- w - (rate g) z.
    void update(std::span<const float> z, double rate, double g, double decay, Stored& weights) const {
        for (int64_t i = 0; i < weights.count(); ++i) {
            const float gradient = round(product(g, drawn(z, i)) + product(decay, weights[i]));
            weights.set(i, weights[i] - product(rate, gradient));
        }
    }
    void update_without_decay(std::span<const float> z, double rate, double g, Stored& weights) const {
        for (int64_t i = 0; i < weights.count(); ++i) weights.set(i, weights[i] - product(rate * g, drawn(z, i)));
    }

  private:
    float round(float x) const { return nearest_reference(type_, x); }
    float product(double a, float b) const { return round(static_cast<float>(a) * b); }
    float drawn(std::span<const float> z, int64_t i) const { return round(z[static_cast<size_t>(i)]); }

    WeightType type_;
};

}  // namespace windlass
