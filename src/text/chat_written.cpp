#include "text/chat_written.h"

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "text/row_template.h"

namespace windlass {
namespace {

// The names under which answers carry reasoning.
constexpr const char* kReasoningKeys[] = {"reasoning_content", "reasoning", "thinking"};

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

std::string escaped(const std::string& text) {
    const std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
    return quoted.substr(1, quoted.size() - 2);
}

// A text that is looked into many times.
class Haystack {
  public:
    explicit Haystack(std::string_view text) : text_(text) {}

    bool has(const std::string& whole) {
        const std::string given(stripped(whole));
        if (given.empty() || text_.find(given) != std::string_view::npos) return true;
        if (squeezed_.empty()) squeezed_ = squeezed(text_);
        return squeezed_.find(squeezed(given)) != std::string::npos ||
               squeezed_.find(squeezed(escaped(given))) != std::string::npos ||
               squeezed_.find(squeezed(escaped(escaped(given)))) != std::string::npos;
    }

    bool has_word_of(std::string_view given) const {
        for (size_t begin = 0; begin < given.size();) {
            size_t end = begin;
            while (end < given.size() && !is_space(given[end])) ++end;
            if (end > begin && text_.find(given.substr(begin, end - begin)) != std::string_view::npos) return true;
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
        if (value.is_number_integer()) return has(value.dump());
        // Fractions and nulls are spelled in several ways.
        return true;
    }

  private:
    std::string_view text_;
    std::string squeezed_;
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

// The reasoning under whatever name; transformers gives it to templates under all of them.
std::pair<const char*, const std::string*> reasoning_of(const Json& answer) {
    for (const char* key : kReasoningKeys)
        if (const std::string* text = text_member(answer, key); text && !text->empty()) return {key, text};
    return {nullptr, nullptr};
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
    return true;
}

}  // namespace

bool gives_something(const Json& answer) {
    const std::string* const content = text_member(answer, "content");
    return (content && !content->empty()) || reasoning_of(answer).second || calls_of(answer);
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
    if (const auto [key, reasoning] = reasoning_of(answer); reasoning) look_for(key, *reasoning);
    if (const Json* const calls = calls_of(answer)) {
        const bool are_there = std::ranges::all_of(*calls, [&](const Json& call) { return has_call(hay, call); });
        if (!are_there) written.missing.emplace_back("tool_calls");
        has_any |= are_there || std::ranges::any_of(*calls, [&](const Json& call) { return has_call(hay, call); });
    }
    written.nothing = !has_any && gives_something(answer);
    return written;
}

std::vector<std::string> missing_around(const Chat& chat, std::string_view text) {
    Haystack hay(text);
    std::vector<std::string> missing;
    if (chat.tools.is_array() &&
        !std::ranges::all_of(chat.tools, [&](const Json& tool) { return has_tool(hay, tool); }))
        missing.emplace_back("tools");
    for (const Json& message : chat.messages) {
        const std::string* const content = text_member(message, "content");
        const bool is_system = message["role"] == "system" || message["role"] == "developer";
        if (!is_system || !content || hay.has(*content)) continue;
        missing.emplace_back("system message");
        break;
    }
    return missing;
}

}  // namespace windlass
