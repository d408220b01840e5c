#include "jinja/chat_template.h"

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/reasoning_keys.h"

namespace windlass {
namespace {

// {"thinking": reasoning, **message, "reasoning_content": reasoning}, as transformers makes it: most templates read the
// last name, those of gpt-oss the first.
jinja::Value with_reasoning(jinja::Arena& arena, const jinja::Value& message) {
    if (message.kind != jinja::Kind::dict) return message;
    const auto find = [&](std::vector<jinja::Member>& members, std::string_view name) {
        return std::find_if(members.begin(), members.end(),
                            [&](const jinja::Member& member) { return member.key.text == name; });
    };
    std::vector<jinja::Member> members(message.mapping->all().begin(), message.mapping->all().end());
    jinja::Value reasoning;
    for (const std::string_view name : kSharedReasoningKeys) {
        const auto found = find(members, name);
        if (reasoning.kind == jinja::Kind::undefined && found != members.end() &&
            found->value.kind != jinja::Kind::none)
            reasoning = found->value;
    }
    if (reasoning.kind == jinja::Kind::undefined) return message;
    jinja::Member thinking{jinja::Value::string("thinking"), reasoning};
    if (const auto found = find(members, "thinking"); found != members.end()) {
        thinking = *found;
        members.erase(found);
    }
    members.insert(members.begin(), thinking);
    if (const auto found = find(members, "reasoning_content"); found != members.end())
        found->value = reasoning;
    else
        members.push_back({jinja::Value::string("reasoning_content"), reasoning});
    return arena.dict(members);
}

jinja::Value messages_of(jinja::Arena& arena, const Json* json) {
    if (json == nullptr) return arena.list({});
    const jinja::Value messages = value_of_json(arena, *json);
    if (messages.kind != jinja::Kind::list) return messages;
    jinja::ListBuilder all(arena);
    for (const jinja::Value& message : messages.sequence->all()) all.push(with_reasoning(arena, message));
    return arena.list(all.items());
}

void define_all(jinja::Interpreter& interpreter, jinja::Arena& arena, const ChatToRender& chat,
                const TemplateSettings& settings) {
    const jinja::Value none = jinja::Value::none();
    interpreter.define("documents", none);
    for (const auto& [name, text] : settings.special_tokens) interpreter.define(name, jinja::Value::string(text));
    if (chat.extra != nullptr && chat.extra->is_object())
        for (const auto& [name, value] : chat.extra->get_ref<const Json::object_t&>())
            interpreter.define(name, value_of_json(arena, value));
    interpreter.define("messages", messages_of(arena, chat.messages));
    interpreter.define("tools", chat.tools == nullptr ? none : value_of_json(arena, *chat.tools));
    interpreter.define("add_generation_prompt", jinja::Value::boolean(chat.add_generation_prompt));
}

// Of this value as JSON, about; 0 where there is none.
int64_t bytes_of(const Json* json) {
    constexpr int64_t kMarks = 4;  // quotes, commas, brackets, the digits of a small number
    int64_t bytes = 0;
    std::vector<const Json*> open;
    if (json != nullptr) open.push_back(json);
    while (!open.empty()) {
        const Json& value = *open.back();
        open.pop_back();
        bytes += kMarks;
        if (value.is_string()) bytes += std::ssize(value.get_ref<const std::string&>());
        if (value.is_array())
            for (const Json& item : value) open.push_back(&item);
        if (!value.is_object()) continue;
        for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) {
            bytes += kMarks + std::ssize(key);
            open.push_back(&member);
        }
    }
    return bytes;
}

}  // namespace

TemplateLimits limits_for(int64_t bytes) {
    constexpr int64_t kWork = int64_t{1} << 22, kMemory = int64_t{1} << 22, kOutput = int64_t{1} << 20;
    return {.work = kWork + 256 * bytes, .memory_bytes = kMemory + 128 * bytes, .output_bytes = kOutput + 32 * bytes};
}

std::string json_text(const Json& value) {
    jinja::Arena arena(limits_for(bytes_of(&value)));
    jinja::TextBuilder out(arena);
    jinja::write_json(out, value_of_json(arena, value), {});
    return out.take();
}

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(std::string_view source, std::string_view where) {
    auto program = std::make_unique<jinja::Program>();
    program->where = where;
    program->source = source;
    jinja::parse_program(*program);
    return ChatTemplate(std::move(program));
}

bool ChatTemplate::marks_generation() const {
    return program_->marks_generation;
}

bool ChatTemplate::names(std::string_view name) const {
    return program_->words.contains(name);
}

RenderedChat ChatTemplate::render(const ChatToRender& chat, const TemplateSettings& settings,
                                  std::string_view where) const {
    const int64_t bytes =
        std::ssize(program_->source) + bytes_of(chat.messages) + bytes_of(chat.tools) + bytes_of(chat.extra);
    jinja::Arena arena(settings.limits.value_or(limits_for(bytes)));
    jinja::Interpreter interpreter(*program_, arena, settings.now_seconds);
    try {
        define_all(interpreter, arena, chat, settings);
        return interpreter.run();
    } catch (const jinja::Raised& raised) {
        throw UserError(ExitCode::data, where, "the chat template ({}:{}) refuses this chat: {}", program_->where,
                        interpreter.line(), excerpt(raised.text))
            .hint("messages in the order that it expects, or another template, in chat_template: FILE");
    } catch (const jinja::Fault& fault) {
        TemplateBound error(ExitCode::data, where, "the chat template ({}:{}) cannot write this chat: {}",
                            program_->where, interpreter.line(), excerpt(fault.message));
        error.hint("another template, in chat_template: FILE");
        if (fault.is_bound) throw error;
        throw UserError(error);
    }
}

}  // namespace windlass
