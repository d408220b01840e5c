// renamed.h: names that earlier versions had for keys and their values. What they wrote (run.yaml, run states, logs) is
// read with today's names; a user who writes one into a configuration is warned.
#pragma once

#include <string_view>

#include "base/json_fwd.h"

namespace windlass {

struct Renamed {
    std::string_view key, value;          // as they were
    std::string_view key_now, value_now;  // and as they are
};

// nullptr: neither the key nor this value of it has another name. Of a renamed key any value finds one.
const Renamed* find_renamed(std::string_view key, std::string_view value);

// Renames an object's members that are texts.
void rename_members(Json& object);

}  // namespace windlass
