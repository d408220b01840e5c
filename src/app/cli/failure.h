// failure.h: an error as JSON, for programs that read stdout.
#pragma once

#include <span>
#include <string>

#include "base/error.h"

namespace windlass {

// Whether these words ask for JSON; they need not be a command that can be read.
bool asks_for_json(std::span<const char* const> words);

// {"schema_version": 1, "error": {"code": 3, "kind": "no_fit", "place": "plan", "text": "...", "tries": ["..."]}} of a
// message "place: text. Try: this", to stdout; a stdout that takes nothing is no second error. `place` is empty where
// the message has none.
void print_failure(ExitCode code, const std::string& message);

}  // namespace windlass
