// jq_command.h: commands that mend a file of rows, for messages.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace windlass {

// "jq -c 'select(.label)' rows.jsonl > NEW.jsonl" for the file in `where` ("rows.jsonl:3", "rows.json:1: message 2");
// of a .json file each object of its array is filtered.
std::string jq_command(std::string_view where, std::string_view filter);
// The command of Python that makes numbers null that are not finite; jq reads none of them.
std::string finite_command(std::string_view where);
// Adds to an error that offers jq what older ones do to this row's whole numbers above 2^53, if it has one.
void remark_on_digits(UserError& error, std::string_view row);
// The member of this name, in a filter.
std::string jq_member(std::string_view key);

}  // namespace windlass
