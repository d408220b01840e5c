// run_text.h: a Session as people read it: the start of a run and the answer of `windlass plan`.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "session/session.h"

namespace windlass {

// Model, machine, method, placement table, prediction, notes: lines, followed by kFits.
std::string plan_text(const Session& session);
inline constexpr const char* kFits = "FITS\n";
// The same as one JSON object; `advice` is its "advice", and `compared` whether that is all.
Json plan_json(const Session& session, const Json& advice, const Json& compared);
// The predicted step as a picture shows it: {"title", "seconds", "lanes": [{"lane", "tasks": [{"name", "start",
// "seconds"}]}]}, in seconds; of more than four thousand tasks the longest.
Json lanes_json(const Session& session);

// Aligns columns: the first to the left, the others to the right; two spaces between.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace windlass
