// failure_json.h: an error as JSON, for programs.
#pragma once

#include <string>

#include "base/error.h"
#include "base/json_fwd.h"

namespace windlass {

// {"code": 3, "kind": "no_fit", "place": "plan", "text": "...", "tries": ["..."]} of a message "place: text. Try:
// this". `place` is empty where the message has none.
Json failure_json(ExitCode code, const std::string& message);

}  // namespace windlass
