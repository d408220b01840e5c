// run_text.h: a Session as people read it: the start of a run and the answer of `windlass plan`.
#pragma once

#include <string>

#include "train/session.h"

namespace windlass {

// Model, machine, method, placement table, prediction; ends with FITS. One trailing line end.
std::string plan_text(const Session& session);
// The same as one JSON object with schema_version.
std::string plan_json(const Session& session);

// Aligns columns: the first to the left, the others to the right; two spaces between.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace windlass
