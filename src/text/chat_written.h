// chat_written.h: what a row gives must be in what the template writes of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat.h"

namespace windlass {

// What an answer gives (its content, its reasoning, its calls' names and arguments) and what of that is missing in the
// text that is written of it: "content", "reasoning_content", "tool_calls". White space and escapes of JSON do not
// count. `nothing`: the text has no word of it.
struct Written {
    std::vector<std::string> missing;
    bool nothing = false;
};
Written answer_in(const Json& answer, std::string_view text);

// Whether an answer gives anything.
bool gives_something(const Json& answer);
// Whether its content is all that it gives.
bool gives_content_alone(const Json& answer);

// "tools", "system messages", "tool messages", ..., where the text outside of the answers lacks some of them.
// Messages from `end` on do not count.
std::vector<std::string> missing_around(const Chat& chat, size_t end, std::string_view text);

}  // namespace windlass
