#include "text/chat_template.h"

#include "base/error.h"
#include "base/json.h"
#include "text/template/interpreter.h"

namespace windlass {
namespace {

using jinja::Arena;
using jinja::Fault;
using jinja::Member;
using jinja::Raised;
using jinja::Value;

// The names under which messages carry reasoning. Templates read the first, those of gpt-oss the second.
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};

// {"thinking": reasoning, **message, "reasoning_content": reasoning}, as transformers makes it.
Value with_reasoning(Arena& arena, const Value& message) {
    if (message.kind != jinja::Kind::dict) return message;
    const auto find = [&](std::vector<Member>& members, std::string_view name) {
        return std::find_if(members.begin(), members.end(),
                            [&](const Member& member) { return member.key.text == name; });
    };
    std::vector<Member> members(message.mapping->all().begin(), message.mapping->all().end());
    Value reasoning;
    for (const std::string_view name : kReasoning) {
        const auto found = find(members, name);
        if (reasoning.kind == jinja::Kind::undefined && found != members.end() &&
            found->value.kind != jinja::Kind::none)
            reasoning = found->value;
    }
    if (reasoning.kind == jinja::Kind::undefined) return message;
    Member thinking{Value::string("thinking"), reasoning};
    if (const auto found = find(members, "thinking"); found != members.end()) {
        thinking = *found;
        members.erase(found);
    }
    members.insert(members.begin(), thinking);
    if (const auto found = find(members, "reasoning_content"); found != members.end())
        found->value = reasoning;
    else
        members.push_back({Value::string("reasoning_content"), reasoning});
    return arena.dict(members);
}

Value messages_of(Arena& arena, const Json* json) {
    if (json == nullptr) return arena.list({});
    const Value messages = from_json(arena, *json);
    if (messages.kind != jinja::Kind::list) return messages;
    jinja::ListBuilder all(arena);
    for (const Value& message : messages.sequence->all()) all.push(with_reasoning(arena, message));
    return arena.list(all.items());
}

void define_all(jinja::Interpreter& interpreter, Arena& arena, const ChatToRender& chat,
                const TemplateSettings& settings) {
    const Value none = Value::none();
    interpreter.define("documents", none);
    for (const auto& [name, text] : settings.special_tokens) interpreter.define(name, Value::string(text));
    if (chat.extra != nullptr && chat.extra->is_object())
        for (const auto& [name, value] : chat.extra->get_ref<const Json::object_t&>())
            interpreter.define(name, from_json(arena, value));
    interpreter.define("messages", messages_of(arena, chat.messages));
    interpreter.define("tools", chat.tools == nullptr ? none : from_json(arena, *chat.tools));
    interpreter.define("add_generation_prompt", Value::boolean(chat.add_generation_prompt));
}

}  // namespace

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

RenderedChat ChatTemplate::render(const ChatToRender& chat, const TemplateSettings& settings,
                                  std::string_view where) const {
    Arena arena(settings.limits);
    jinja::Interpreter interpreter(*program_, arena, settings.now_seconds);
    try {
        define_all(interpreter, arena, chat, settings);
        return interpreter.run();
    } catch (const Raised& raised) {
        throw UserError(ExitCode::data, where, "the chat template ({}:{}) refuses this chat: {}", program_->where,
                        interpreter.line(), raised.text);
    } catch (const Fault& fault) {
        throw UserError(ExitCode::data, where, "the chat template ({}:{}) cannot write this chat: {}", program_->where,
                        interpreter.line(), fault.message);
    }
}

}  // namespace windlass
