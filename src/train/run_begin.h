// run_begin.h: what a run says before its first step: what differs from before, warnings, the plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/event_stream.h"
#include "base/file.h"
#include "persist/run_folder.h"
#include "session/session.h"
#include "state/run_state.h"

namespace windlass {

// changed: settings that a resumed run has otherwise than before. ended: the state with which the run ended once.
void tell_begin(FileSystem& files, const Session& session, const StartPoint& start,
                const std::vector<std::string>& changed, const std::optional<RunState>& ended, EventStream& events);

}  // namespace windlass
