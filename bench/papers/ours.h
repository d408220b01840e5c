// ours.h: what our planner gets where the paper measured: the same rows a step, the same machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/planner.h"

namespace windlass {

// Shapes as published, with their tables and heads; no memory is ever allocated for them.
TrainedModel gpt_13b();
TrainedModel gpt_175b();
TrainedModel llama_70b();

struct OurQuestion {
    const TrainedModel* model = nullptr;
    Machine machine;
    int64_t rows = 1;  // of a step
    int64_t sequence_length = 1024;
    StateFormat format = StateFormat::fp32;
    int64_t memory_bytes = 0;    // of the host that a run may use
    bool all_on_drives = false;  // weights and state have no home in memory
};

// A step as planned, with the micro-batch for which it is fastest.
struct OurAnswer {
    Planned planned;  // without its schedules and its tasks
    Numerics numerics;
    double tokens_per_s = 0;
};
// Nothing where nothing fits.
std::optional<OurAnswer> ask(const OurQuestion& question);

}  // namespace windlass
