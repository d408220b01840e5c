// lr_schedule.h: the learning rate of every step, in double precision.
//
// Names and formulas are those of transformers (optimization.py, release 5): a run that is moved here keeps its
// learning rates. Update s (from 1) takes the factor that transformers has after s - 1 scheduler steps.
#pragma once

#include <cstdint>
#include <string>

namespace windlass {

struct LrSchedule {
    std::string type = "linear";
    double peak = 0;  // learning rate
    int64_t total_steps = 0;
    int64_t warmup_steps = 0;
    double min_ratio = 0;     // cosine_with_min_lr, warmup_stable_decay; polynomial: its end, 1e-7 when 0
    int64_t cycles = 1;       // cosine_with_restarts
    double power = 1;         // polynomial
    int64_t decay_steps = 0;  // warmup_stable_decay

    bool operator==(const LrSchedule&) const = default;
};

// The learning rate of update `step`, 1 for the first. UserError(usage) for a type that there is not.
double learning_rate(const LrSchedule& schedule, int64_t step);

}  // namespace windlass
