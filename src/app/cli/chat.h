// chat.h: what the forms of `windlass chat` share.
#pragma once

#include <functional>
#include <string>

#include "app/cli/output.h"
#include "config/config.h"
#include "infer/chat.h"
#include "rows/chat_format.h"

namespace windlass {

inline constexpr EventKind kTextEvent{.name = "text"};  // of an answer, as it is written
inline constexpr int64_t kQuestionBytesMax = int64_t{1} << 20;

// The chat template of the configuration's model. Throws UserError(model) where there is none.
ChatFormat chat_format_of(const Config& config, const Tokenizer& tokenizer);

enum class ReplyEnd : uint8_t { model, length, interrupt };
struct Reply {
    ChatAnswer answer;
    ReplyEnd end = ReplyEnd::model;  // what ended it; Ctrl-C is an interrupt
};
// Makes an answer, whose text it gives away as it comes, until that says false.
using MakeAnswer = std::function<ChatAnswer(const ChatSession::OnText& on_text)>;
Reply ask(Engine& engine, const MakeAnswer& make, const std::function<void(const std::string& text)>& on_text);

// Adds the conversation to a file, as a row of training data.
void save_chat(const ChatSession& chat, const std::string& path);

// A conversation with a program: objects with questions and commands on stdin, one a line, and events on stdout
// (docs/guide/json.md). Until stdin ends. What cannot be read or obeyed is an event too, and ends nothing.
void chat_by_lines(Engine& engine, ChatSession& chat, int64_t capacity, VerbOutput& out);

}  // namespace windlass
