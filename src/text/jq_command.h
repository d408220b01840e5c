// jq_command.h: commands that mend a file of rows, for messages.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// "jq -c 'select(.label)' rows.jsonl > NEW.jsonl" for the file in `where` ("rows.jsonl:3", "rows.json:1: message 2");
// of a .json file each object of its array is filtered.
std::string jq_command(std::string_view where, std::string_view filter);
// The member of this name, in a filter.
std::string jq_member(std::string_view key);

}  // namespace windlass
