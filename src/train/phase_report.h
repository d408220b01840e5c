// phase_report.h: what a phase made of its groups of parameters: a line in the log, and a file with one entry for each
// (docs/format/refresh.md).
#pragma once

#include <string>

#include "base/file.h"
#include "method/phase.h"
#include "run/engine.h"

namespace windlass {

// step: the one that follows.
void report_phase(FileSystem& files, const std::string& path, int64_t step, const Phase& phase,
                  const TrainedModel& model, const StepReport& report);

}  // namespace windlass
