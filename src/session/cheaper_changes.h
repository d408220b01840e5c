// cheaper_changes.h: what may be changed of a session to make a token cheaper, and the settings that say so.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "session/session.h"
#include "session/variation.h"

namespace windlass {

// Changes of different kinds can all be made to one variation.
using Change = std::function<void(Variation&)>;
// Changes of one kind, the least first. One of them is made.
using ChangeKind = std::vector<Change>;
// Key and value, as a user gives them.
using CheaperSettings = std::vector<std::pair<std::string, std::string>>;

// The kind that saves most for a plan that waits for memory or drives comes first.
std::vector<ChangeKind> cheaper_changes(const Session& session);

// What of the variation differs from the session.
CheaperSettings settings_of(const Session& session, const Variation& variation);
// What else it changes: rows of a step, the bits; empty where it changes nothing but the plan.
std::string changes_of(const Session& session, const Variation& variation);
// "state_format=int8 policy=auto"
std::string settings_words(const CheaperSettings& settings);

}  // namespace windlass
