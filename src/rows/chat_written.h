// chat_written.h: what a row gives must be in what the template writes of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rows/chat.h"

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

// Whether the text says what the tools are.
bool has_tools(const Chat& chat, std::string_view text);
// Of the messages before `end`, those whose content is not in the text, each in a place that no other one takes: the
// same words in another message do not count. `elsewhere`, in order: messages that the text is without.
std::vector<size_t> lost_messages(const Chat& chat, size_t end, const std::vector<size_t>& elsewhere,
                                  std::string_view text);

}  // namespace windlass
