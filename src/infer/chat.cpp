#include "infer/chat.h"

#include "base/error.h"
#include "base/json.h"
#include "rows/prompt_ids.h"
#include "rows/stop_text.h"

namespace windlass {
namespace {

constexpr std::string_view kConversation = "conversation";

bool has_role(const Json& message, std::string_view role) {
    return message["role"] == role;
}

}  // namespace

ChatSession::ChatSession(Engine& engine, const ChatFormat& format, ChatOptions options)
    : model_(engine.setup().model),
      format_(format),
      options_(std::move(options)),
      conversation_(engine),
      messages_(std::make_unique<Json>(Json::array())) {}

ChatSession::~ChatSession() = default;

void ChatSession::set_system(const std::string& text) {
    Json& messages = *messages_;
    if (!messages.empty() && has_role(messages.front(), "system")) messages.erase(messages.begin());
    if (!text.empty()) messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
}

bool ChatSession::undo() {
    Json& messages = *messages_;
    size_t end = messages.size();
    while (end > 0 && !has_role(messages[end - 1], "user")) --end;
    if (end == 0) return false;
    messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(end - 1), messages.end());
    return true;
}

ChatAnswer ChatSession::answer(const std::string& question, const OnText& on_text) {
    Json asked = *messages_;
    asked.push_back({{"role", "user"}, {"content", question}});
    return answer_to(asked, options_, on_text);
}

ChatAnswer ChatSession::answer_to(const Json& messages, const ChatOptions& options, const OnText& on_text) {
    Json asked = messages;
    const std::vector<int32_t> ids = chat_prompt_ids(format_, asked);
    ChatAnswer answer{.prompt_tokens = std::ssize(ids)};
    const int64_t room = std::min(options_.capacity, model_.context_length) - answer.prompt_tokens;
    if (room < 1)
        throw UserError(ExitCode::data, kConversation, "has {} tokens, of {} that there is room for", ids.size(),
                        options_.capacity)
            .hint("/undo, /reset, or a larger --max-length");
    GenerateOptions generate = options.generate;
    generate.max_new_tokens = std::min(generate.max_new_tokens, room);
    StreamDecoder decoder(format_.tokenizer(), /*skip_special=*/true);
    StopText stop(options.stops);
    bool goes_on = true;
    const auto take = [&](const std::string& text) {
        answer.text += text;
        if (!text.empty()) goes_on = on_text(text) && goes_on;
        return goes_on && !stop.is_over();
    };
    answer.result = conversation_.reply(ids, generate, [&](int32_t id) { return take(stop.push(decoder.push(id))); });
    if (!stop.is_over()) take(stop.push(decoder.finish()));
    take(stop.finish());
    answer.result.stopped |= stop.is_over();
    answer.reused_tokens = conversation_.reused();
    asked.push_back({{"role", "assistant"}, {"content", answer.text}});
    *messages_ = std::move(asked);
    return answer;
}

std::string ChatSession::row() const {
    return Json({{"messages", *messages_}}).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace windlass
