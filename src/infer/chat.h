// chat.h: a conversation with a model: its messages, and their keys and values.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "infer/generate.h"
#include "rows/chat_format.h"

namespace windlass {

struct ChatOptions {
    GenerateOptions generate;        // stop_ids: as ChatFormat::turn_ends says
    std::vector<std::string> stops;  // texts that end an answer; they are no part of it
    int64_t capacity = 0;            // tokens of the whole conversation
};

struct ChatAnswer {
    std::string text;
    GenerateResult result;
    int64_t prompt_tokens = 0;
    int64_t reused_tokens = 0;  // the part of them that was computed before
};

class ChatSession {
  public:
    using OnText = std::function<bool(std::string_view)>;

    // They outlive it. The engine was made with decode_requests for options.capacity.
    ChatSession(Engine& engine, const ChatFormat& format, ChatOptions options);
    ~ChatSession();

    // The system message, first in every conversation from now on; empty: none.
    void set_system(const std::string& text);
    // Takes back the last question and its answer; false if there is none.
    bool undo();
    // The answer to a question; on_text gets its text as it comes and may end it by false. Throws UserError(data)
    // where the conversation grows longer than the capacity, and leaves it as it was.
    ChatAnswer answer(const std::string& question, const OnText& on_text);
    // The same of a whole conversation that another program keeps, which takes the place of this one: objects with
    // "role" and "content", the last one a question. `options`: for this answer; the capacity stays.
    ChatAnswer answer_to(const Json& messages, const ChatOptions& options, const OnText& on_text);
    const ChatOptions& options() const { return options_; }
    // A row of training data: {"messages": [...]}.
    std::string row() const;

  private:
    const ModelSpec& model_;
    const ChatFormat& format_;
    ChatOptions options_;
    Conversation conversation_;
    std::unique_ptr<Json> messages_;
};

}  // namespace windlass
