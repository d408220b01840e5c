// step_outputs.h: what a sweep's last segment left behind: losses of tokens, summed in one order everywhere.
#pragma once

#include <span>
#include <vector>

#include "run/arenas.h"
#include "schedule/schedule.h"

namespace windlass {

// Outputs of one schedule: f32, a number for each token of its micro-batches. They stay in the arena until the next
// schedule runs.
class StepOutputs {
  public:
    StepOutputs(const ScheduleSet& set, const Schedule& schedule, const Arenas& arenas)
        : set_(set), schedule_(schedule), arenas_(arenas) {}

    double sum(std::span<const BufferSlice> outputs) const;
    // By row, output after output.
    std::vector<double> row_sums(std::span<const BufferSlice> outputs) const;

  private:
    const ScheduleSet& set_;
    const Schedule& schedule_;
    const Arenas& arenas_;
};

}  // namespace windlass
