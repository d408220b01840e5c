#include "rows/chat_written.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <numeric>

#include "base/json.h"
#include "jinja/reasoning_keys.h"
#include "rows/row_template.h"
#include "rows/tool_call.h"

namespace windlass {
namespace {

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

// The ways in which templates write a text, without white space: as it is, and as JSON within none, one or two others.
std::vector<std::string> spellings(const std::string& whole) {
    const std::string given(stripped(whole));
    const std::string once = escaped(given);
    std::vector<std::string> all = {squeezed(given), squeezed(once), squeezed(escaped(once)),
                                    squeezed(escaped(given, /*ascii=*/true))};
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

// A text that is looked into many times. What is looked for comes in the order in which templates write it: each search
// begins where the one before ended, so that all take time that grows with the text.
class Haystack {
  public:
    explicit Haystack(std::string_view text) : text_(text) {}

    bool has(const std::string& whole) {
        const std::string given(stripped(whole));
        if (given.empty() || find(text_, at_, given)) return true;
        return std::ranges::any_of(spellings(given), [&](const std::string& spelling) {
            return find(squeezed_text(), squeezed_at_, spelling);
        });
    }

    // The name of one call after that of another, so that each is found in a place of its own.
    bool has_next_name(const std::string& name) {
        const size_t found = text_.find(name, name_at_);
        if (found == text_.npos) return text_.find(name) == text_.npos && has(name);
        at_ = name_at_ = found + name.size();
        return true;
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

    // The given texts, in their order, that are not here, each in a place that no other one takes.
    std::vector<size_t> lacking(const std::vector<const std::string*>& given) {
        std::vector<size_t> lost = lost_in_order(text_, given, [](const std::string& text) {
            return std::vector<std::string>{std::string(stripped(text))};
        });
        if (!lost.empty()) lost = lost_in_order(squeezed_text(), given, spellings);
        // Some templates write messages in another order, such as a system message in the last question.
        return lost.empty() || given.size() == 1 ? lost : lost_anywhere(given);
    }

  private:
    static bool find(std::string_view text, size_t& at, std::string_view given) {
        size_t found = text.find(given, at);
        if (found == text.npos && at > 0) found = text.find(given);
        if (found == text.npos) return false;
        at = found;
        return true;
    }

    // Each after the one before.
    template <typename Spell>
    static std::vector<size_t> lost_in_order(std::string_view text, const std::vector<const std::string*>& given,
                                             const Spell& spell) {
        std::vector<size_t> lost;
        size_t at = 0;
        for (size_t i = 0; i < given.size(); ++i) {
            bool is_found = false;
            for (const std::string& spelling : spell(*given[i])) {
                const size_t found = text.find(spelling, at);
                if (found == text.npos) continue;
                at = found + spelling.size();
                is_found = true;
                break;
            }
            if (!is_found) lost.push_back(i);
        }
        return lost;
    }

    // The longest first, as they may hold what others say.
    std::vector<size_t> lost_anywhere(const std::vector<const std::string*>& given) {
        std::vector<size_t> order(given.size()), lost;
        std::iota(order.begin(), order.end(), size_t{0});
        std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return given[i]->size(); });
        std::map<size_t, size_t> taken;  // begin and end
        for (const size_t i : order) {
            const std::vector<std::string> all = spellings(*given[i]);
            const bool is_found = std::ranges::any_of(
                all, [&](const std::string& spelling) { return take_place(taken, squeezed_text(), spelling); });
            if (!is_found) lost.push_back(i);
        }
        std::ranges::sort(lost);
        return lost;
    }

    static bool take_place(std::map<size_t, size_t>& taken, std::string_view text, std::string_view given) {
        if (given.empty()) return true;
        for (size_t at = text.find(given); at != text.npos;) {
            const auto next = taken.lower_bound(at + given.size());  // the first that begins after it
            if (next == taken.begin() || std::prev(next)->second <= at) {
                taken.emplace(at, at + given.size());
                return true;
            }
            at = text.find(given, std::prev(next)->second);
        }
        return false;
    }

    const std::string& squeezed_text() {
        if (squeezed_.empty()) squeezed_ = squeezed(text_);
        return squeezed_;
    }

    std::string_view text_;
    std::string squeezed_;
    size_t at_ = 0, squeezed_at_ = 0, name_at_ = 0;
};

const std::string* text_member(const Json& object, std::string_view key) {
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
    std::string_view key;
    const std::string* text = nullptr;
};
Reasoning reasoning_of(const Json& answer) {
    for (const std::string_view key : kReasoningKeys)
        if (const auto entry = answer.find(key); entry != answer.end() && !is_nothing(*entry))
            return {key, text_member(answer, key)};
    return {};
}

bool has_call(Haystack& text, const Json& call) {
    const Json& function = call.contains("function") ? call["function"] : call;
    const std::string* const name = text_member(function, "name");
    const auto arguments = function.find("arguments");
    return (!name || text.has_next_name(*name)) && (arguments == function.end() || text.has_value(*arguments));
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
    return (content && !stripped(*content).empty()) || !reasoning_of(answer).key.empty() || calls_of(answer);
}

bool gives_content_alone(const Json& answer) {
    return gives_something(answer) && reasoning_of(answer).key.empty() && !calls_of(answer);
}

Written answer_in(const Json& answer, std::string_view text) {
    Haystack hay(text);
    Written written;
    const Reasoning reasoning = reasoning_of(answer);
    std::vector<std::string> names;
    std::vector<const std::string*> texts;  // in the order in which templates write them
    if (reasoning.text) names.emplace_back(reasoning.key), texts.push_back(reasoning.text);
    if (const std::string* content = text_member(answer, "content"); content && !content->empty())
        names.emplace_back("content"), texts.push_back(content);
    for (const size_t lost : hay.lacking(texts)) written.missing.push_back(names[lost]);
    bool has_any = written.missing.size() < texts.size() ||
                   std::ranges::any_of(texts, [&](const std::string* given) { return hay.has_word_of(*given); });
    if (!reasoning.key.empty() && !reasoning.text) written.missing.emplace_back(reasoning.key);  // no text
    if (const Json* const calls = calls_of(answer)) {
        const bool are_there = std::ranges::all_of(*calls, [&](const Json& call) { return has_call(hay, call); });
        if (!are_there) written.missing.emplace_back("tool_calls");
        has_any |= are_there || std::ranges::any_of(*calls, [&](const Json& call) {
                       Haystack again(text);
                       return has_call(again, call);
                   });
    }
    written.nothing = !has_any && gives_something(answer);
    return written;
}

bool has_tools(const Chat& chat, std::string_view text) {
    Haystack hay(text);
    return !chat.tools.is_array() ||
           std::ranges::all_of(chat.tools, [&](const Json& tool) { return has_tool(hay, tool); });
}

std::vector<size_t> lost_messages(const Chat& chat, size_t end, const std::vector<size_t>& elsewhere,
                                  std::string_view text) {
    std::vector<size_t> messages;
    std::vector<const std::string*> texts;
    for (size_t i = 0; i < end; ++i) {
        const std::string* const content = text_member(chat.messages[i], "content");
        if (!content || std::ranges::binary_search(elsewhere, i)) continue;
        messages.push_back(i);
        texts.push_back(content);
    }
    std::vector<size_t> lost = Haystack(text).lacking(texts);
    for (size_t& each : lost) each = messages[each];
    return lost;
}

}  // namespace windlass
