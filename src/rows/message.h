// message.h: one message of a conversation, in the one form that chat templates read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "rows/message_form.h"

namespace windlass {

// What "Try: " shows.
inline constexpr const char* kMessageForm = R"({"role": "user", "content": "..."})";

struct Message {
    Json json;                       // {"role", "content"?, ...}
    std::optional<bool> is_trained;  // as the row says, if it does
    bool had_empty_members = false;  // some were left out
    MessageForm form;
};

// Throws UserError(data) naming `place`: a role that there is not, content that is not text, calls that are none, two
// members that say the same thing differently, pictures.
Message read_message(Json message, const Json& tools, std::string_view place);

// The text that a value is: a string, or a list of parts that are all text. Throws UserError(data) naming `place`.
std::string text_of_content(const Json& content, std::string_view key, std::string_view place);
// The text of a member that must be one.
std::string text_at(const Json& value, std::string_view key, std::string_view where);

// One of these members, the first that is there and not null.
const Json* find_member(const Json& object, std::initializer_list<std::string_view> keys);

}  // namespace windlass
