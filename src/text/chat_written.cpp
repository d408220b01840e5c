#include "text/chat_written.h"

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "text/row_template.h"
#include "text/tool_call.h"

namespace windlass {
namespace {

// The names under which answers carry reasoning.
constexpr const char* kReasoningKeys[] = {"reasoning_content", "reasoning",      "thinking",         "thought",
                                          "thinking_content",  "reasoning_text", "reasoning_details"};
constexpr int kWordsTried = 64;

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// Without white space, which templates strip and add.
std::string squeezed(std::string_view text) {
    std::string made;
    made.reserve(text.size());
    std::ranges::copy_if(text, std::back_inserter(made), [](char c) { return !is_space(c); });
    return made;
}

std::string escaped(const std::string& text, bool ascii = false) {
    const std::string quoted = Json(text).dump(-1, ' ', ascii, Json::error_handler_t::replace);
    return quoted.substr(1, quoted.size() - 2);
}

// A text that is looked into many times. What is looked for comes in the order in which templates write it: each search
// begins where the one before ended, so that all take time that grows with the text.
class Haystack {
  public:
    explicit Haystack(std::string_view text) : text_(text) {}

    bool has(const std::string& whole) {
        const std::string given(stripped(whole));
        if (given.empty() || find(text_, at_, given)) return true;
        if (squeezed_.empty()) squeezed_ = squeezed(text_);
        const std::string once = escaped(given);
        return find(squeezed_, squeezed_at_, squeezed(given)) || find(squeezed_, squeezed_at_, squeezed(once)) ||
               find(squeezed_, squeezed_at_, squeezed(escaped(once))) ||
               find(text_, at_, escaped(given, /*ascii=*/true));
    }

    bool has_word_of(std::string_view given) const {
        int tried = 0;
        for (size_t begin = 0; begin < given.size() && tried < kWordsTried;) {
            size_t end = begin;
            while (end < given.size() && !is_space(given[end])) ++end;
            if (end > begin && text_.find(given.substr(begin, end - begin)) != std::string_view::npos) return true;
            tried += end > begin;
            begin = end + 1;
        }
        return false;
    }

    // Each name and value of arguments: templates write them as JSON, as Python or as XML.
    bool has_value(const Json& value) {
        if (value.is_object()) {
            return std::ranges::all_of(value.get_ref<const Json::object_t&>(), [&](const auto& member) {
                return has(member.first) && has_value(member.second);
            });
        }
        if (value.is_array()) return std::ranges::all_of(value, [&](const Json& item) { return has_value(item); });
        if (value.is_string()) return has(value.get_ref<const std::string&>());
        if (value.is_boolean()) return value.get<bool>() ? has("true") || has("True") : has("false") || has("False");
        if (const std::optional<std::string> digits = digits_of(value)) return has(*digits);
        if (value.is_number_integer()) return has(value.dump());
        // Fractions and nulls are spelled in several ways.
        return true;
    }

  private:
    static bool find(std::string_view text, size_t& at, std::string_view given) {
        size_t found = text.find(given, at);
        if (found == text.npos && at > 0) found = text.find(given);
        if (found == text.npos) return false;
        at = found;
        return true;
    }

    std::string_view text_;
    std::string squeezed_;
    size_t at_ = 0, squeezed_at_ = 0;
};

const std::string* text_member(const Json& object, const char* key) {
    const auto entry = object.find(key);
    if (entry == object.end() || !entry->is_string()) return nullptr;
    return &entry->get_ref<const std::string&>();
}

const Json* calls_of(const Json& answer) {
    const auto calls = answer.find("tool_calls");
    return calls == answer.end() || !calls->is_array() || calls->empty() ? nullptr : &*calls;
}

// The reasoning under whatever name, and what of it is text.
struct Reasoning {
    const char* key = nullptr;
    const std::string* text = nullptr;
};
Reasoning reasoning_of(const Json& answer) {
    for (const char* key : kReasoningKeys)
        if (const auto entry = answer.find(key); entry != answer.end() && !is_nothing(*entry))
            return {key, text_member(answer, key)};
    return {};
}

bool has_call(Haystack& text, const Json& call) {
    const Json& function = call.contains("function") ? call["function"] : call;
    const std::string* const name = text_member(function, "name");
    const auto arguments = function.find("arguments");
    return (!name || text.has(*name)) && (arguments == function.end() || text.has_value(*arguments));
}

bool has_tool(Haystack& text, const Json& tool) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    if (!function.is_object()) return true;
    for (const char* key : {"name", "description"})
        if (const std::string* given = text_member(function, key); given && !text.has(*given)) return false;
    const Json parameters = function.value("parameters", Json());
    const Json properties = parameters.is_object() ? parameters.value("properties", Json()) : Json();
    return !properties.is_object() ||
           std::ranges::all_of(properties.get_ref<const Json::object_t&>(),
                               [&](const auto& property) { return text.has(property.first); });
}

}  // namespace

bool gives_something(const Json& answer) {
    const std::string* const content = text_member(answer, "content");
    return (content && !stripped(*content).empty()) || reasoning_of(answer).key || calls_of(answer);
}

bool gives_content_alone(const Json& answer) {
    return gives_something(answer) && !reasoning_of(answer).key && !calls_of(answer);
}

Written answer_in(const Json& answer, std::string_view text) {
    Haystack hay(text);
    Written written;
    bool has_any = false;
    const auto look_for = [&](const char* what, const std::string& given) {
        const bool is_there = hay.has(given);
        if (!is_there) written.missing.emplace_back(what);
        has_any |= is_there || hay.has_word_of(given);
    };
    if (const std::string* content = text_member(answer, "content"); content && !content->empty())
        look_for("content", *content);
    const Reasoning reasoning = reasoning_of(answer);
    if (reasoning.text)
        look_for(reasoning.key, *reasoning.text);
    else if (reasoning.key)
        written.missing.emplace_back(reasoning.key);  // no text
    if (const Json* const calls = calls_of(answer)) {
        const bool are_there = std::ranges::all_of(*calls, [&](const Json& call) { return has_call(hay, call); });
        if (!are_there) written.missing.emplace_back("tool_calls");
        has_any |= are_there || std::ranges::any_of(*calls, [&](const Json& call) { return has_call(hay, call); });
    }
    written.nothing = !has_any && gives_something(answer);
    return written;
}

std::vector<std::string> missing_around(const Chat& chat, size_t end, std::string_view text) {
    Haystack hay(text);
    std::vector<std::string> missing;
    if (chat.tools.is_array() &&
        !std::ranges::all_of(chat.tools, [&](const Json& tool) { return has_tool(hay, tool); }))
        missing.emplace_back("tools");
    for (size_t i = 0; i < end; ++i) {
        const Json& message = chat.messages[i];
        const std::string* const content = text_member(message, "content");
        if (message["role"] == "assistant" || !content || hay.has(*content)) continue;
        const std::string what = message["role"].get<std::string>() + " messages";
        if (std::ranges::find(missing, what) == missing.end()) missing.push_back(what);
    }
    return missing;
}

}  // namespace windlass
