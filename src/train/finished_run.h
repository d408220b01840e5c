// finished_run.h: a run that is resumed and has no step left, and what is asked of every run that is resumed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "persist/run_folder.h"
#include "session/session.h"
#include "train/train.h"

namespace windlass {

// A template that prints the date prints the day on which the run began, whatever file it continues with.
void keep_date(FileSystem& files, const std::string& run, Config& config);

// The base's checksum, which is a part of the run's identity where some of it is not trained; else empty.
std::string needed_checksum(const Session& session);

// The settings that differ from those of the run's state `last`, which is of `where`, and may. UserError where others
// differ, the base does, or the state's place in the rows is not the one after its steps.
std::vector<std::string> require_same(const Session& session, const RunState& last, const std::string& where);

// The result of a run whose final/ says that it ended with `ended` (train/final_folder.h), if these settings leave no
// step to train; says so, and changes nothing in its folder. Nothing if a step is left.
std::optional<TrainResult> already_finished(FileSystem& files, const Config& given, const RunFolder& folder,
                                            const RunState& ended);

// The best step and the memory, as they are when nothing more is done.
void describe_end(const Session& session, const RunProgress& progress, TrainResult& result);

}  // namespace windlass
