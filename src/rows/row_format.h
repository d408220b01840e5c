// row_format.h: what the JSON of one row says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rows/row_notes.h"

namespace windlass {

enum class RowFormat {
    text,        // {"text"}: all of it is trained
    completion,  // {"prompt", "completion"}: the completion is trained
    alpaca,      // {"instruction", "input"?, "output"}: the output is trained
    tokens,      // {"input_ids", "labels"?}: ids as another trainer made them; label -100 is not trained
    preference,  // {"chosen", "rejected"} answers to a "prompt" or a conversation: one is preferred to the other
    chat,        // {"messages"}, {"conversations"}, or prompt and completion as lists of messages (rows/chat.h)
};

inline constexpr int kRowFormats = 6;

std::string_view name_of(RowFormat format);

// The keys under which a file keeps its fields.
struct FieldNames {
    std::string text = "text";
    std::string prompt = "prompt";
    std::string completion = "completion";
    std::string instruction = "instruction";
    std::string input = "input";
    std::string output = "output";
    std::string messages = "messages";
};

struct Row {
    RowFormat format = RowFormat::text;
    bool is_chat = false;          // it holds messages, or is to be written as some: read_chat, read_chat_pair
    std::string prompt;            // completion and alpaca: what comes before the trained text
    std::string text;              // what is trained; the answer that is preferred
    std::string rejected;          // preference: the other answer
    std::vector<int32_t> ids;      // tokens
    std::vector<uint8_t> trained;  // tokens: one per id
};

// The row in this JSON text. `expected`, the format of the file so far, must be the row's format too. What a chat says
// is left to read_chat; with `alpaca_is_chat` that of an Alpaca row, too. A key that is null counts as absent. Keys
// that are not read go to `notes`. Throws UserError(data) naming `where`: malformed JSON, fields that are missing or of
// another type, keys that would change what the row means (rows/row_keys.h), two keys that say the same thing
// differently.
Row read_row(std::string_view json, const FieldNames& names, std::optional<RowFormat> expected, std::string_view where,
             RowNotes& notes, bool alpaca_is_chat = false);

// The prompt of Stanford's Alpaca, with the line end after "### Response:" that its successors use.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

}  // namespace windlass
