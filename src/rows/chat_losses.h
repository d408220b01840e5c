// chat_losses.h: holds what is written of a conversation against what its row gives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rows/chat.h"
#include "rows/chat_format.h"
#include "rows/row_notes.h"

namespace windlass {

// Bytes of a text.
struct TextSpan {
    size_t begin = 0, end = 0;
};

// A text, and the places in it of the messages that are trained. No message: every turn is.
struct LearntText {
    std::string text;
    std::vector<size_t> messages;
    std::vector<TextSpan> spans;  // one for each of them
};

// Notes what the texts of a conversation leave out. The last one is the longest. Throws UserError(data) naming `where`
// for an answer that is not written at all.
void note_losses(const Chat& chat, const std::vector<LearntText>& texts, const ChatFormat& format,
                 std::string_view where, RowNotes& notes);
// Counts what the row gives the template and the template does not read: members of messages, and variables. Throws
// UserError(data) naming `where` for a number that is not finite, where it is read.
void note_unread(const Chat& chat, const ChatFormat& format, std::string_view where, RowNotes& notes);

}  // namespace windlass
