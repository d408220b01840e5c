#include "rows/chat_losses.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "jinja/reasoning_keys.h"
#include "rows/chat_written.h"
#include "rows/not_finite.h"
#include "rows/row_keys.h"

namespace windlass {
namespace {

class LossFinder {
  public:
    LossFinder(const Chat& chat, const ChatFormat& format, std::string_view where, RowNotes& notes)
        : chat_(chat), format_(format), where_(where), notes_(notes) {}

    void look(const std::vector<LearntText>& texts) {
        for (const LearntText& learnt : texts) {
            for (size_t i = 0; i < learnt.messages.size(); ++i) {
                const auto [begin, end] = learnt.spans[i];
                look_at_answer(learnt.messages[i], std::string_view(learnt.text).substr(begin, end - begin));
            }
        }
        const LearntText& whole = texts.back();
        if (whole.messages.empty())
            for (size_t i = 0; i < chat_.messages.size(); ++i)
                if (chat_.is_answer(i) && chat_.may_be_learnt[i]) look_at_answer(i, whole.text);
        look_around(texts);
    }

  private:
    void look_at_answer(size_t message, std::string_view text) {
        const Written written = answer_in(chat_.messages[message], text);
        if (written.nothing)
            throw UserError(ExitCode::data, where_, "message {}: the template ({}) writes nothing of this answer ({})",
                            message + 1, format_.place(), fmt::join(written.missing, ", "))
                .hint("\"train\": false in this message, or a template that writes it, in chat_template: FILE");
        for (const std::string& what : written.missing) note(what);
    }

    // What is in one of several texts is not lost.
    void look_around(const std::vector<LearntText>& texts) {
        bool tools_are_there = false;
        std::set<size_t> lost;
        size_t seen = 0;  // messages before it were looked for
        for (const LearntText& learnt : texts) {
            const std::string around = without_answers(learnt);
            tools_are_there = tools_are_there || has_tools(chat_, around);
            // Texts of single answers end there.
            const size_t end = learnt.messages.empty() ? chat_.messages.size() : learnt.messages.back();
            const std::vector<size_t> here = lost_messages(chat_, end, learnt.messages, around);
            std::erase_if(lost, [&](size_t each) { return each < end && !std::ranges::binary_search(here, each); });
            for (const size_t each : here)
                if (each >= seen) lost.insert(each);
            seen = std::max(seen, end);
        }
        if (!tools_are_there) note("tools");
        for (const size_t each : lost)
            if (!chat_.is_answer(each)) note(chat_.messages[each]["role"].get<std::string>() + " messages");
    }

    static std::string without_answers(const LearntText& learnt) {
        std::string text = learnt.text;
        for (size_t i = learnt.spans.size(); !learnt.messages.empty() && i-- > 0;)
            text.erase(learnt.spans[i].begin, learnt.spans[i].end - learnt.spans[i].begin);
        return text;
    }

    // Once for a row.
    void note(const std::string& what) {
        if (!noted_.insert(what).second) return;
        notes_.add(fmt::format("the chat template ({}) leaves out {} that rows have", format_.place(), what), where_);
    }

    const Chat& chat_;
    const ChatFormat& format_;
    std::string_view where_;
    RowNotes& notes_;
    std::set<std::string> noted_;
};

// Whether a member of a message is one that every template gets, or says nothing.
bool is_known_member(const std::string& key) {
    for (const char* known : {"role", "content", "tool_calls"})
        if (key == known) return true;
    return std::ranges::find(kReasoningKeys, key) != kReasoningKeys.end() ||
           use_of(key, RowFormat::chat) == KeyUse::inert;
}

}  // namespace

void note_losses(const Chat& chat, const std::vector<LearntText>& texts, const ChatFormat& format,
                 std::string_view where, RowNotes& notes) {
    LossFinder(chat, format, where, notes).look(texts);
}

void note_unread(const Chat& chat, const ChatFormat& format, std::string_view where, RowNotes& notes) {
    std::set<std::string> unread;
    for (const Json& message : chat.messages) {
        for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
            if (is_known_member(key) || is_nothing(value)) continue;
            if (format.reads_member(key, chat.tools))
                refuse_not_finite_in(value, key, where);
            else
                unread.insert("messages[]." + key);
        }
    }
    if (chat.variables.is_object())
        for (const auto& [key, value] : chat.variables.get_ref<const Json::object_t&>())
            if (!is_nothing(value) && !format.reads_variable(key, chat.tools))
                unread.insert("chat_template_kwargs." + key);
    for (const std::string& key : unread) notes.add_unread_key(key);
}

}  // namespace windlass
