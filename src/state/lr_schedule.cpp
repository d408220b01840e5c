#include "state/lr_schedule.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace windlass {
namespace {

constexpr double kPolynomialEnd = 1e-7;  // lr_end of transformers

double half_cosine(double progress) {
    return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

double polynomial(const LrSchedule& s, int64_t after) {
    const double end = s.min_ratio > 0 ? s.min_ratio * s.peak : kPolynomialEnd;
    if (after > s.total_steps || s.total_steps <= s.warmup_steps) return end / s.peak;
    const double done =
        static_cast<double>(after - s.warmup_steps) / static_cast<double>(s.total_steps - s.warmup_steps);
    return ((s.peak - end) * std::pow(1.0 - done, s.power) + end) / s.peak;
}

double warmup_stable_decay(const LrSchedule& s, int64_t after) {
    const int64_t decay_begin = s.total_steps - s.decay_steps;
    if (after < decay_begin) return 1.0;
    if (after >= s.total_steps) return s.min_ratio;
    const double done =
        static_cast<double>(after - decay_begin) / static_cast<double>(std::max<int64_t>(1, s.decay_steps));
    return half_cosine(done) * (1.0 - s.min_ratio) + s.min_ratio;
}

// The factor after `after` scheduler steps.
double factor(const LrSchedule& s, int64_t after) {
    if (s.type == "constant") return 1.0;
    if (after < s.warmup_steps) {
        const double risen = static_cast<double>(after) / static_cast<double>(s.warmup_steps);
        return s.type == "warmup_stable_decay" ? risen * (1.0 - s.min_ratio) + s.min_ratio : risen;
    }
    const auto since_warmup = static_cast<double>(after - s.warmup_steps);
    const auto span = static_cast<double>(std::max<int64_t>(1, s.total_steps - s.warmup_steps));
    if (s.type == "constant_with_warmup") return 1.0;
    if (s.type == "linear") return std::max(0.0, static_cast<double>(s.total_steps - after) / span);
    if (s.type == "cosine") return std::max(0.0, half_cosine(since_warmup / span));
    if (s.type == "cosine_with_min_lr")
        return std::max(0.0, half_cosine(since_warmup / span) * (1.0 - s.min_ratio) + s.min_ratio);
    if (s.type == "cosine_with_restarts") {
        const double progress = since_warmup / span;
        return progress >= 1.0 ? 0.0
                               : std::max(0.0, half_cosine(std::fmod(static_cast<double>(s.cycles) * progress, 1.0)));
    }
    if (s.type == "inverse_sqrt") {
        const double timescale = s.warmup_steps > 0 ? static_cast<double>(s.warmup_steps) : 10000.0;
        return 1.0 / std::sqrt((static_cast<double>(after - s.warmup_steps) + timescale) / timescale);
    }
    if (s.type == "polynomial") return polynomial(s, after);
    if (s.type == "warmup_stable_decay") return warmup_stable_decay(s, after);
    throw UserError(ExitCode::usage, "lr_scheduler_type", "there is no schedule \"{}\"", s.type);
}

}  // namespace

double learning_rate(const LrSchedule& schedule, int64_t step) {
    WINDLASS_CHECK(step >= 1, "updates count from 1, not {}", step);
    if (schedule.peak == 0) return 0.0;
    return schedule.peak * factor(schedule, step - 1);
}

}  // namespace windlass
