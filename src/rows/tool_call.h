// tool_call.h: calls of tools, and what tools are, as chat templates read them.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace windlass {

inline constexpr const char* kCallForm = R"({"name": "...", "arguments": {}})";

// {"type": "function", "function": {"name", "arguments"}} of a call in that form or in the shorter one. Throws
// UserError(data) naming `where`: no name, or arguments under another key.
Json call_of(Json call, std::string_view where);
// sharegpt's function_call: the text of one call, or of a list of them.
Json calls_in_text(const std::string& text, std::string_view where);

// Members that are null, at any depth, are left out: whether there were any.
bool drop_empty_members(Json& value);
// Null, or an object or list that holds nothing but nulls: what tables of Arrow give rows without the value.
bool is_made_of_nulls(const Json& value);

struct OpenedCall {
    bool had_empty_members = false;  // null members were left out
    std::string arguments_text;      // the arguments as the row gives them, where they are text
};
// Opens the arguments where they are the text of an object, and leaves out null members, except for arguments that the
// tool's own schema allows to be null. Arguments that were text have only such nulls as their author wrote, and stay.
// Throws UserError(data) naming `where` for other text.
OpenedCall open_call(Json& call, const Json& tools, std::string_view where);

// Tables of Arrow give every call, and every tool, the members of all others, null where it has none. They are left
// out, as transformers' users mean it; a null that the tool's own schema allows is an argument, and stays.
struct ToolList {
    Json tools;                      // a list, or null
    bool had_empty_members = false;  // some were left out
};

// A list of tools, or the text of one; nothing, null and empty text are no tools. `key` is what the row calls it.
// Throws UserError(data) naming `where`.
ToolList read_tools(const Json* value, std::string_view key, std::string_view where);

}  // namespace windlass
