// chat_template.h: chat templates: the text that a model was trained to see for a list of messages.
//
// A template comes with a model and is hostile: it is parsed once into an immutable form, and each rendering has bounds
// on work, memory and output. What is supported is in docs/dev/templates.md; everything else is refused with its line.
// Threads: any number may render one template at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_fwd.h"

namespace windlass {

struct RenderedChat {
    std::string text;
    // The byte ranges that the template wrote between {% generation %} and {% endgeneration %}, in order.
    std::vector<std::pair<size_t, size_t>> generated;
};

// What a template sees, as JSON whose objects keep the order of their members. Tools that are null are none. Reasoning
// that a message has under one of the names in use is also given under the others, as transformers gives it.
struct ChatToRender {
    const Json* messages = nullptr;
    const Json* tools = nullptr;
    bool add_generation_prompt = false;
    const Json* extra = nullptr;  // an object: further variables, such as documents or enable_thinking
};

// Of one rendering.
struct TemplateLimits {
    int64_t work;          // units: a byte read is one, a node of the template 16
    int64_t memory_bytes;  // of all values that a rendering makes
    int64_t output_bytes;
};
// For a chat and a template that have `bytes` together: about eight times what published templates need, and a fraction
// of a second for a hostile one.
TemplateLimits limits_for(int64_t bytes);

struct TemplateSettings {
    std::map<std::string, std::string> special_tokens;  // "bos_token": "<s>"; what a tokenizer lacks is not in it
    int64_t now_seconds = 0;                            // the civil date and time, as seconds from 1970-01-01 00:00:00
    std::optional<TemplateLimits> limits;               // absent: limits_for the chat and the template
};

// A rendering that would break a limit. Where several chats do, the template is at fault.
class TemplateBound : public UserError {
  public:
    using UserError::UserError;
};

// The value as templates write it with `tojson`.
std::string json_text(const Json& value);

namespace jinja {
struct Program;
}

class ChatTemplate {
  public:
    // UserError(model) names the place as where:line, what is not supported and what to do.
    static ChatTemplate parse(std::string_view source, std::string_view where);

    // UserError(data) at `where` for a chat that the template refuses or cannot be rendered with; TemplateBound where
    // that is because of a limit.
    RenderedChat render(const ChatToRender& chat, const TemplateSettings& settings, std::string_view where) const;

    bool marks_generation() const;  // whether it has {% generation %} blocks
    // Whether it may read a variable or a member of this name: the name occurs in its expressions.
    bool names(std::string_view name) const;

    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

  private:
    explicit ChatTemplate(std::unique_ptr<const jinja::Program> program);
    std::unique_ptr<const jinja::Program> program_;
};

}  // namespace windlass
