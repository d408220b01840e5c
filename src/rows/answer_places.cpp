#include "rows/answer_places.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"
#include "rows/chat_writer.h"

namespace windlass {
namespace {

// The k-th mark is the k-th answer's.
std::optional<LearntText> by_marks(const Chat& chat, RenderedChat& whole, const std::vector<size_t>& answers) {
    LearntText learnt{.messages = answers};
    size_t answer = 0;
    for (size_t i = 0; i < chat.messages.size(); ++i) {
        if (!chat.is_answer(i)) continue;
        const bool is_wanted = std::ranges::find(answers, i) != answers.end();
        if (answer == whole.generated.size()) return std::nullopt;
        const auto [begin, end] = whole.generated[answer++];
        if (is_wanted) learnt.spans.push_back({begin, end});
    }
    if (answer != whole.generated.size()) return std::nullopt;
    learnt.text = std::move(whole.text);
    return learnt;
}

// A part of a conversation that a template takes as one of its own: messages before the first answer, of many the first
// and the last, then all from one answer on.
class Windows {
  public:
    Windows(ChatWriter& writer, std::string_view text) : writer_(writer), text_(text) {
        constexpr size_t kHeadMax = 4;
        const Chat& chat = writer.chat();
        size_t count = 0;
        while (count < chat.messages.size() && !chat.is_answer(count)) ++count;
        head_ = count <= kHeadMax ? first_messages(count) : Messages{0, count - 1};
    }

    // Where an answer is in the text, by that of the answer before it. Nothing where a window does not
    // continue as the text does.
    std::optional<TextSpan> find(size_t previous, const TextSpan& place, size_t answer) {
        const Messages before = from(previous, answer);
        const std::string until = writer_.write(with_message(before, answer), false);
        const std::string known = writer_.write(from(previous, previous + 1), false);
        if (!continues(known, until, place.end)) return std::nullopt;
        const std::optional<TextSpan> found = writer_.find(before, answer, until, until);
        if (!found || found->begin < known.size()) return std::nullopt;
        return TextSpan{found->begin - known.size() + place.end, found->end - known.size() + place.end};
    }

    // Where an answer is at the end of the text, which ends as a window does, from before the answer on.
    std::optional<TextSpan> find_at_end(size_t previous, size_t answer) {
        const Messages before = from(previous, answer);
        const std::string until = writer_.write(with_message(before, answer), false);
        const std::optional<TextSpan> found = writer_.find(before, answer, until, until);
        if (!found || until.size() > text_.size() + found->begin) return std::nullopt;
        const size_t bytes = until.size() - found->begin;
        if (!text_.ends_with(std::string_view(until).substr(found->begin))) return std::nullopt;
        return TextSpan{text_.size() - bytes, text_.size()};
    }

    // Where the text of the first `count` messages ends, by where that of fewer ends; there is one at least.
    std::optional<size_t> end_of(size_t count, size_t fewer, size_t end) {
        const size_t anchor = anchor_of(fewer);
        const std::string until = writer_.write(from(anchor, count), false);
        const std::string known = writer_.write(from(anchor, fewer), false);
        if (!continues(known, until, end)) return std::nullopt;
        return end + until.size() - known.size();
    }

  private:
    Messages from(size_t anchor, size_t end) const {
        Messages messages;
        std::ranges::copy_if(head_, std::back_inserter(messages), [&](size_t each) { return each < anchor; });
        for (size_t message = anchor; message < end; ++message) messages.push_back(message);
        return messages;
    }

    // The last answer of the first `count` messages, unless it is far away.
    size_t anchor_of(size_t count) const {
        constexpr size_t kFar = 8;
        for (size_t back = 1; back <= std::min(count, kFar); ++back)
            if (writer_.chat().is_answer(count - back)) return count - back;
        return count - 1;
    }

    bool continues(const std::string& known, const std::string& until, size_t end) const {
        return until.starts_with(known) && text_.substr(std::min(end, text_.size()), until.size() - known.size()) ==
                                               std::string_view(until).substr(known.size());
    }

    ChatWriter& writer_;
    std::string_view text_;
    Messages head_;
};

// Below this many, each is found in the text of all messages before it.
constexpr size_t kWindowedMin = 4;

// Windows show how a turn continues the one before it. Of the first place, the second, the fourth, the eighth and so
// on, and of the last, the text of all messages must show the same.
bool is_checked(size_t index, size_t count) {
    return index == 0 || std::has_single_bit(index) || index + 1 == count;
}

std::optional<std::vector<TextSpan>> spans_in_windows(ChatWriter writer, std::string_view text,
                                                      const std::vector<size_t>& answers) {
    if (answers.size() < kWindowedMin) return std::nullopt;
    Windows windows(writer, text);
    std::vector<TextSpan> spans;
    try {
        for (size_t i = 0; i < answers.size(); ++i) {
            std::optional<TextSpan> span, whole;
            if (is_checked(i, answers.size()) && !(whole = writer.find(answers[i], text))) return std::nullopt;
            span = i == 0 ? whole : windows.find(answers[i - 1], spans.back(), answers[i]);
            if (!span || (whole && (whole->begin != span->begin || whole->end != span->end))) return std::nullopt;
            if (!spans.empty() && span->begin < spans.back().end) return std::nullopt;
            spans.push_back(*span);
        }
        return spans;
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return std::nullopt;  // the template does not take a part of the conversation as one of its own
    }
}

// Where the texts of the first `counts` messages end; the counts ascend.
std::optional<std::vector<size_t>> ends_in_windows(ChatWriter writer, std::string_view text,
                                                   const std::vector<size_t>& counts) {
    if (counts.size() < kWindowedMin) return std::nullopt;
    Windows windows(writer, text);
    std::vector<size_t> ends;
    try {
        for (size_t i = 0; i < counts.size(); ++i) {
            std::optional<size_t> end;
            const bool is_first = i == 0 || counts[i - 1] == 0;
            if (!is_first && !(end = windows.end_of(counts[i], counts[i - 1], ends.back()))) return std::nullopt;
            if (is_first || is_checked(i, counts.size())) {
                const std::string whole = writer.write(first_messages(counts[i]), false);
                if (!text.starts_with(whole) || (end && *end != whole.size())) return std::nullopt;
                end = whole.size();
            }
            ends.push_back(*end);
        }
        return ends;
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return std::nullopt;
    }
}

std::optional<LearntText> in_one_text(ChatWriter& writer, const std::string& text, const std::vector<size_t>& answers) {
    LearntText learnt{.text = text, .messages = answers};
    if (std::optional<std::vector<TextSpan>> spans = spans_in_windows(writer, text, answers)) {
        learnt.spans = *std::move(spans);
        return learnt;
    }
    for (const size_t answer : answers) {
        const std::optional<TextSpan> span = writer.find(answer, text);
        if (!span || (!learnt.spans.empty() && span->begin < learnt.spans.back().end)) return std::nullopt;
        learnt.spans.push_back(*span);
    }
    return learnt;
}

// Each rendering would write all tools: of many, the answers are found in a text with one tool that ends as the whole
// text does, from before the first answer. Nothing where that cannot be shown.
std::optional<LearntText> by_one_tool(const Chat& chat, const ChatFormat& format, ChatWriter& writer,
                                      const std::string& text, const std::vector<size_t>& answers,
                                      std::string_view where, WrittenWork& work) {
    constexpr size_t kManyTools = 64, kManyAnswers = 4;
    if (!chat.tools.is_array() || chat.tools.size() < kManyTools || answers.size() < kManyAnswers) return std::nullopt;
    try {
        const Json one = Json::array({chat.tools.front()});
        ChatWriter brief_writer(chat, format, one, where, work);
        const std::string brief = brief_writer.whole().text;
        std::optional<LearntText> learnt = in_one_text(brief_writer, brief, answers);
        if (!learnt || brief.size() > text.size()) return std::nullopt;
        const auto shared =
            static_cast<size_t>(std::mismatch(brief.rbegin(), brief.rend(), text.rbegin()).first - brief.rbegin());
        if (learnt->spans.front().begin < brief.size() - shared) return std::nullopt;
        for (TextSpan& span : learnt->spans) {
            span.begin += text.size() - brief.size();
            span.end += text.size() - brief.size();
        }
        const std::optional<TextSpan> last = writer.find(answers.back(), text);
        if (!last || last->begin != learnt->spans.back().begin || last->end != learnt->spans.back().end)
            return std::nullopt;
        learnt->text = text;
        return learnt;
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return std::nullopt;  // the template fails with one tool
    }
}

std::optional<TextSpan> window_at_end(ChatWriter writer, const std::string& text, size_t previous, size_t answer) {
    try {
        return Windows(writer, text).find_at_end(previous, answer);
    } catch (const TemplateBound&) {
        throw;
    } catch (const UserError&) {
        return std::nullopt;
    }
}

// Where an answer is at the end of its text: as far as a window shows it, which is checked as above.
std::optional<TextSpan> at_end(ChatWriter& writer, const std::string& text, const std::vector<size_t>& answers,
                               size_t index, bool& windows_show_it) {
    const size_t answer = answers[index];
    const bool is_whole = !windows_show_it || is_checked(index, answers.size());
    std::optional<TextSpan> shown;
    if (windows_show_it && index > 0) shown = window_at_end(writer, text, answers[index - 1], answer);
    if (shown && !is_whole) return shown;
    const Messages before = first_messages(answer);
    std::optional<TextSpan> span = writer.find(before, answer, text, text);
    if (!span) span = writer.find_by_content(before, answer, text, text);
    windows_show_it &= index == 0 || (span && shown && span->begin == shown->begin);
    return span;
}

std::vector<LearntText> one_for_each(ChatWriter& writer, const std::vector<size_t>& answers, std::string_view where,
                                     const bool by_windows) {
    std::vector<LearntText> texts;
    bool windows_show_it = by_windows;
    for (const size_t answer : answers) {
        LearntText learnt{.text = writer.write(first_messages(answer + 1), false), .messages = {answer}};
        std::optional<TextSpan> span = at_end(writer, learnt.text, answers, texts.size(), windows_show_it);
        if (by_windows && !windows_show_it) return one_for_each(writer, answers, where, false);
        if (!span) {
            const std::string& said = writer.problem();
            throw UserError(ExitCode::data, where,
                            "message {}: it cannot be said where the template writes this answer{}", answer + 1,
                            said.empty() ? "" : " (" + said + ")")
                .hint(
                    "\"train\": false in this message, or a template that marks answers by {% generation %}, in "
                    "chat_template: FILE");
        }
        learnt.spans = {*span};
        texts.push_back(std::move(learnt));
    }
    return texts;
}

// The same, where windows do not show it.
std::vector<size_t> ends_of(const Chat& chat, ChatWriter& writer, std::string_view text,
                            const std::vector<size_t>& counts, std::string_view where) {
    std::vector<size_t> ends;
    for (const size_t count : counts) {
        const std::string whole = writer.write(first_messages(count), false);
        const bool ends_a_message = count > 0 && chat.may_be_learnt[count - 1] == 0;
        if (!text.starts_with(whole))
            throw UserError(ExitCode::data, where, "message {}: it cannot be said where the template writes it",
                            ends_a_message ? count : count + 1)
                .hint("train_turns: assistant");
        ends.push_back(whole.size());
    }
    return ends;
}

// Everything but the messages that must not be learned.
LearntText all_turns(const Chat& chat, ChatWriter& writer, std::string text, std::string_view where) {
    LearntText learnt{.text = std::move(text)};
    std::vector<size_t> counts;  // of messages whose text ends where what is learned does, or begins
    for (size_t i = 0; i < chat.messages.size(); ++i) {
        if (chat.may_be_learnt[i]) continue;
        if (counts.empty() || counts.back() != i) counts.push_back(i);
        counts.push_back(i + 1);
    }
    std::optional<std::vector<size_t>> ends = ends_in_windows(writer, learnt.text, counts);
    if (!ends) ends = ends_of(chat, writer, learnt.text, counts, where);
    const auto end_of = [&](size_t count) {
        return (*ends)[static_cast<size_t>(std::ranges::lower_bound(counts, count) - counts.begin())];
    };
    size_t begin = 0;
    for (size_t i = 0; i < chat.messages.size(); ++i) {
        if (chat.may_be_learnt[i]) continue;
        if (end_of(i) > begin) learnt.spans.push_back({begin, end_of(i)});
        begin = end_of(i + 1);
    }
    if (begin < learnt.text.size()) learnt.spans.push_back({begin, learnt.text.size()});
    return learnt;
}

std::vector<LearntText> find_texts(const Chat& chat, const ChatFormat& format, TrainTurns turns,
                                   const std::vector<size_t>& answers, std::string_view where, WrittenWork& work) {
    ChatWriter writer(chat, format, chat.tools, where, work);
    RenderedChat whole = writer.whole();
    std::vector<LearntText> texts;
    if (turns == TrainTurns::all) {
        texts.push_back(all_turns(chat, writer, std::move(whole.text), where));
        return texts;
    }
    if (format.marks_generation(chat.tools)) {
        if (std::optional<LearntText> learnt = by_marks(chat, whole, answers)) {
            texts.push_back(std::move(*learnt));
            return texts;
        }
    }
    std::optional<LearntText> learnt = by_one_tool(chat, format, writer, whole.text, answers, where, work);
    if (learnt || (learnt = in_one_text(writer, whole.text, answers))) {
        texts.push_back(std::move(*learnt));
        return texts;
    }
    return one_for_each(writer, answers, where, answers.size() >= kWindowedMin);
}

}  // namespace

std::vector<LearntText> learnt_texts(const Chat& chat, const ChatFormat& format, TrainTurns turns,
                                     const std::vector<size_t>& answers, std::string_view where,
                                     size_t* messages_written) {
    WrittenWork work;
    std::vector<LearntText> texts = find_texts(chat, format, turns, answers, where, work);
    if (messages_written != nullptr) *messages_written = work.messages;
    return texts;
}

}  // namespace windlass
