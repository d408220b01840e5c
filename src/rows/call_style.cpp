#include "rows/call_style.h"

#include <fmt/format.h>

#include "base/json.h"
#include "jinja/chat_template.h"

namespace windlass {
namespace {

// Words that no template writes by itself.
constexpr const char* kAsked = "QqWordOneqQ";
constexpr const char* kTool = "ToolWordFourT";
constexpr const char* kArgument = "ArgWordFiveA";
constexpr const char* kValue = "VvWordSixvV";
constexpr const char* kMember = "MmWordSevenmM";

enum class Content { empty, null, absent };

Json called(bool as_text) {
    const Json arguments = {{kArgument, kValue}};
    // Mistral's templates ask for an id of nine characters.
    return {{"id", "call00001"},
            {"type", "function"},
            {"function", {{"name", kTool}, {"arguments", as_text ? Json(json_text(arguments)) : arguments}}}};
}

Json with_call(bool as_text, Content content) {
    Json answer = {{"role", "assistant"}};
    if (content != Content::absent) answer["content"] = content == Content::null ? Json() : Json("");
    answer["tool_calls"] = Json::array({called(as_text)});
    return Json::array({{{"role", "user"}, {"content", kAsked}}, answer});
}

Json probe_tools() {
    const Json parameters = {{"type", "object"},
                             {"properties", {{kArgument, {{"type", "string"}, {"description", "a word"}}}}},
                             {"required", {kArgument}}};
    const Json function = {{"name", kTool}, {"description", "a tool"}, {"parameters", parameters}};
    return Json::array({{{"type", "function"}, {"function", function}}});
}

size_t occurrences(std::string_view text, std::string_view word) {
    size_t found = 0;
    for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) ++found;
    return found;
}

// Tries one form of arguments with each form of content.
class Trial {
  public:
    Trial(const TryTemplate& write, const Json* tools, bool as_text) {
        const std::optional<std::string> with_empty = write(with_call(as_text, Content::empty), tools);
        const size_t nones = with_empty ? occurrences(*with_empty, "None") : 0;
        const auto is_taken = [&](Content content) {
            const std::optional<std::string> text = write(with_call(as_text, content), tools);
            return text && is_shown(*text) && occurrences(*text, "None") <= nones;
        };
        takes_empty_ = with_empty && is_shown(*with_empty);
        takes_null_ = is_taken(Content::null);
        takes_absent_ = is_taken(Content::absent);
    }

    bool is_any() const { return takes_empty_ || takes_null_ || takes_absent_; }
    CallStyle style(bool takes_text) const {
        return {.takes_text = takes_text, .takes_null = takes_null_, .takes_absent = takes_absent_};
    }

  private:
    // As JSON or in a form of its own, but not as Python prints an object where it was to be a text.
    static bool is_shown(const std::string& text) {
        return text.find(kValue) != text.npos &&
               text.find(fmt::format("{{'{}': '{}'}}", kArgument, kValue)) == text.npos;
    }

    bool takes_empty_ = false, takes_null_ = false, takes_absent_ = false;
};

}  // namespace

CallStyle find_call_style(const TryTemplate& write) {
    const Json list = probe_tools();
    for (const Json* const given : {&list, static_cast<const Json*>(nullptr)})
        for (const bool as_text : {false, true})
            if (const Trial trial(write, given, as_text); trial.is_any()) return trial.style(as_text);
    // It writes no calls, and may fail all the same.
    return {.takes_absent = write(with_call(/*as_text=*/false, Content::absent), nullptr).has_value()};
}

bool writes_whole_messages(const TryTemplate& write) {
    Json messages = Json::array({{{"role", "user"}, {"content", kAsked}, {kMember, kValue}}});
    const std::optional<std::string> with = write(messages, nullptr);
    return with && with->find(kValue) != with->npos;
}

void adapt_calls(Json& messages, const std::vector<MessageForm>& forms, const CallStyle& style) {
    for (size_t i = 0; i < messages.size(); ++i) {
        Json& message = messages[i];
        const auto calls = message.find("tool_calls");
        if (calls == message.end()) continue;
        for (size_t k = 0; style.takes_text && k < calls->size(); ++k) {
            Json& function = (*calls)[k]["function"];
            const std::string& text = forms[i].call_texts[k];
            const auto arguments = function.find("arguments");
            if (arguments != function.end()) *arguments = text.empty() ? json_text(*arguments) : text;
        }
        if (message.contains("content")) continue;
        const bool has_null = forms[i].has_null_content;
        if (style.takes_null && (has_null || !style.takes_absent))
            message["content"] = nullptr;
        else if (!style.takes_absent)
            message["content"] = "";
    }
}

}  // namespace windlass
