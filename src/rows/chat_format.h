// chat_format.h: how conversations are written for one model: its template, its tokenizer, and what ends a turn.
//
// Text is what transformers' apply_chat_template renders, and its ids are those of the text alone: a template that
// needs a BOS writes it.
// Immutable; the tokenizer outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json_fwd.h"
#include "jinja/chat_template.h"
#include "rows/call_style.h"
#include "rows/message_form.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// A template's text and where it was found.
struct ChatTemplateSource {
    std::string place;  // "chat_template.jinja"
    std::string text;
    std::string tool_use;  // another one for rows with tools; empty: the same
};

// The most that a template's text may have; the longest that are known have 20 KB.
inline constexpr int64_t kChatTemplateBytesMax = int64_t{1} << 20;

// The template of a model folder, as transformers finds it: chat_template.jinja, chat_template.json, then
// tokenizer_config.json. Nothing: there is none. Throws UserError(model) for files that are something else.
std::optional<ChatTemplateSource> find_chat_template(FileSystem& files, const std::string& folder);
// The template in a file of the user's. Throws UserError(usage).
ChatTemplateSource read_chat_template(FileSystem& files, const std::string& path);

class ChatFormat {
  public:
    // `date`: year-month-day, for templates that print it. Throws UserError(model) for a template that cannot be read,
    // or that breaks its bounds with a chat of few words.
    ChatFormat(const ChatTemplateSource& source, const Tokenizer& tokenizer, const std::string& date);

    // The conversation as text. Throws UserError(data) with what the template says of it, TemplateBound past a limit.
    RenderedChat render(const ChatToRender& chat, std::string_view where) const;
    // Gives calls the form that the template reads: arguments as text where it joins them to text, "content": null
    // where the row has that and the template asks for it, an empty one where it fails without.
    void adapt(Json& messages, const std::vector<MessageForm>& forms, const Json& tools) const;
    // Whether the template may read a variable of this name, or a member of a message.
    bool reads_variable(std::string_view name, const Json& tools) const;
    bool reads_member(std::string_view name, const Json& tools) const;
    bool marks_generation(const Json& tools) const;

    const Tokenizer& tokenizer() const { return tokenizer_; }
    const std::string& place() const { return place_; }
    bool ends_turn(int32_t id) const;
    // Ids that end a turn: those that end a text, and the special token that the template writes after an answer.
    const std::vector<int32_t>& turn_ends() const { return turn_ends_; }
    // What ends an answer after which the template writes nothing: the mark of the next role, if that ends a text
    // (GLM), else EOS.
    std::optional<int32_t> last_end() const { return last_end_; }
    // What a trained answer ends with.
    std::optional<int32_t> answer_end() const { return written_end_ ? written_end_ : last_end_; }
    // Special tokens that the template writes around turns of a user and a model.
    const std::vector<int32_t>& special_ids() const { return special_ids_; }
    const std::string& text() const { return text_; }  // of the template
    const std::string& date() const { return date_; }
    bool prints_date() const { return prints_date_; }
    // Equal for formats that write the same.
    const std::string& description() const { return description_; }

  private:
    // A template, and what was found of it.
    struct Known {
        ChatTemplate chat_template;
        CallStyle calls = {};
        bool writes_whole_messages = false;
    };
    const Known& known_for(const Json& tools) const;
    RenderedChat render_by(const ChatTemplate& chat_template, ChatToRender chat, std::string_view where) const;
    void find_out(Known& known) const;
    void find_turn_ends();
    void describe_special_tokens();
    // Of an answer in two turns, or in three: whether the template writes it, and the first special token after it.
    struct Probe {
        bool shows_answer = false;
        std::optional<int32_t> behind;
        std::vector<int32_t> specials = {};  // of the whole text
    };
    Probe try_template(bool in_parts, bool asks_again) const;

    const Tokenizer& tokenizer_;
    std::string place_, text_, date_, description_;
    bool prints_date_;
    Known default_;
    std::optional<Known> tool_use_;
    TemplateSettings settings_;
    bool wants_parts_ = false;  // the template shows content only where it is a list of parts
    std::vector<int32_t> turn_ends_;
    std::optional<int32_t> last_end_, written_end_;
    std::vector<int32_t> special_ids_;
};

}  // namespace windlass
