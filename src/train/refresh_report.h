// refresh_report.h: what a refresh made of projected layers: a line in the log, and a file with one entry for each
// layer (docs/format/refresh.md).
#pragma once

#include <string>

#include "base/file.h"
#include "method/trained_model.h"
#include "run/engine.h"

namespace windlass {

// step: the one that follows.
void report_refresh(FileSystem& files, const std::string& path, int64_t step, const TrainedModel& model,
                    const StepReport& report);

}  // namespace windlass
