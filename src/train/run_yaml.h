// run_yaml.h: the run.yaml that a run writes into its folder when it begins, and again when it is resumed.
#pragma once

#include <vector>

#include "persist/run_folder.h"
#include "persist/run_parts.h"
#include "session/session.h"

namespace windlass {

// The settings of this run, with what `auto` became where it decides the bits; in front its identity and its parts.
void write_run_yaml(FileSystem& files, const Session& session, const RunFolder& folder,
                    const std::vector<RunPart>& parts);

// The parts that the folder's run.yaml lists, with the one that begins at `start`; of a run that does not continue,
// only that one.
std::vector<RunPart> parts_from(FileSystem& files, const RunFolder& folder, const StartPoint& start, bool continues);

}  // namespace windlass
