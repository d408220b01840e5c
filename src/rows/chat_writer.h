// chat_writer.h: writes parts of one conversation, to find where its answers are in the text of the whole.
//
// What is found is proved on the texts themselves: a text must begin with the text of fewer messages.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rows/chat.h"
#include "rows/chat_format.h"
#include "rows/chat_losses.h"

namespace windlass {

// Messages of a conversation, by index, in the order in which they are written.
using Messages = std::vector<size_t>;
// The first `count` of them.
Messages first_messages(size_t count);
// These and one more.
Messages with_message(Messages messages, size_t more);

// What all renderings of a conversation have written.
struct WrittenWork {
    size_t messages = 0, bytes = 0;  // each as often as it was written
};

// The conversation and `work` outlive it. Any call may throw UserError(data): what the template says of the messages.
class ChatWriter {
  public:
    ChatWriter(const Chat& chat, const ChatFormat& format, const Json& tools, std::string_view where, WrittenWork& work)
        : chat_(chat), format_(format), tools_(tools), where_(where), work_(work) {}

    RenderedChat whole() { return render(chat_.messages, false); }
    // Nothing is written of no message.
    std::string write(const Messages& messages, bool add_generation_prompt);

    // Where an answer is in a text that begins as the text `until` does, which is that of `before` and the answer;
    // nothing where that is not certain.
    std::optional<TextSpan> find(const Messages& before, size_t answer, std::string_view until, std::string_view text);
    // The same, after all messages before it.
    std::optional<TextSpan> find(size_t answer, std::string_view text);
    // Where the text and that of another answer part. Of an answer before which the template can write nothing.
    std::optional<TextSpan> find_by_content(const Messages& before, size_t answer, std::string_view until,
                                            std::string_view text);

    const Chat& chat() const { return chat_; }
    // What the template said where it refused a part of the conversation.
    const std::string& problem() const { return problem_; }

  private:
    RenderedChat render(const Json& messages, bool add_generation_prompt);

    const Chat& chat_;
    const ChatFormat& format_;
    const Json& tools_;
    std::string_view where_;
    WrittenWork& work_;
    std::string problem_;
};

}  // namespace windlass
