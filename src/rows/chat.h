// chat.h: what a row says as a conversation, in the one form that chat templates read.
//
// Read are {"messages": [{"role", "content"}]}, sharegpt's {"conversations": [{"from", "value"}]}, prompts and
// completions that are lists of messages, and Alpaca's rows. The order of members stays that of the file: templates
// print them (`tojson`). docs/guide/chats.md has all forms. Keys of a row that say the same thing are used once; where
// they say different things the row is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "rows/message_form.h"
#include "rows/row_format.h"

namespace windlass {

// Of one conversation. Where the template writes earlier turns otherwise than the last, each answer is a text of its
// own with all turns before it, which takes time that grows with the square of their number.
inline constexpr size_t kChatMessagesMax = 2048;

struct Chat {
    Json messages;                       // a list of {"role", "content", ...}
    Json tools;                          // a list, or null
    Json variables;                      // "chat_template_kwargs": an object, or null
    std::vector<uint8_t> may_be_learnt;  // one per message; 0: "train": false, or a part of a prompt
    std::vector<MessageForm> forms;      // one per message
    bool had_empty_members = false;      // null members of calls or tools were left out

    bool is_answer(size_t message) const { return messages[message]["role"] == "assistant"; }
};

// The conversation in a row of this format, chat or alpaca. Throws UserError(data) naming `where` and the message.
Chat read_chat(std::string_view json, RowFormat format, const FieldNames& names, std::string_view where);

// The two conversations of a row of pairs: the same question, then the answer that is preferred, and the other one.
struct ChatPair {
    Chat chosen, rejected;
};
ChatPair read_chat_pair(std::string_view json, const FieldNames& names, std::string_view where);

}  // namespace windlass
