#include "rows/chat_sample.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "rows/chat_losses.h"
#include "rows/chat_written.h"

namespace windlass {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The last place at or before `at` where a character of UTF-8 begins.
size_t character_begin(std::string_view text, size_t at) {
    while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    return at;
}

// Writes parts of one conversation.
class Writer {
  public:
    Writer(const Chat& chat, const ChatFormat& format, const Json& tools, std::string_view where)
        : chat_(chat), format_(format), tools_(tools), where_(where) {}

    RenderedChat whole() { return write(chat_.messages, false); }

    // The first `messages` of them.
    std::string first(size_t messages, bool add_generation_prompt) {
        if (messages == 0 && !add_generation_prompt) return "";
        Json part = Json::array();
        for (size_t i = 0; i < messages; ++i) part.push_back(chat_.messages[i]);
        return write(part, add_generation_prompt).text;
    }

    // Where an answer is in a text that begins as `ends_with` the answer does; nothing where that is not certain.
    std::optional<TextSpan> find(size_t answer, std::string_view text) {
        try {
            const std::string until = first(answer + 1, false);
            if (!text.starts_with(until)) return std::nullopt;
            const std::string prompt = first(answer, true);
            size_t begin = common_prefix(text, prompt);
            if (begin < prompt.size()) {
                const std::string context = first(answer, false);
                if (!text.starts_with(context) || begin < context.size()) return std::nullopt;
                begin = character_begin(text, begin);
                // What the template puts between the context and the answer may differ from the prompt's.
                const std::optional<TextSpan> by_content =
                    gives_content_alone(chat_.messages[answer]) ? find_by_content(answer, text) : std::nullopt;
                if (by_content) begin = std::max(begin, by_content->begin);
            }
            if (begin >= until.size()) return std::nullopt;
            return TextSpan{begin, until.size()};
        } catch (const UserError& error) {
            problem_ = error.what();
            return find_by_content(answer, text);
        }
    }

    // What the template said where it refused a part of the conversation.
    const std::string& problem() const { return problem_; }

    // Where the text and that of another answer part. Of an answer before which the template can write nothing.
    std::optional<TextSpan> find_by_content(size_t answer, std::string_view text) {
        constexpr std::string_view kOther = "OoWordThreeoO";
        Json others = Json::array();
        for (size_t i = 0; i <= answer; ++i) others.push_back(chat_.messages[i]);
        if (!others[answer].contains("content")) return std::nullopt;
        others[answer]["content"] = kOther;
        try {
            const std::string until = first(answer + 1, false);
            const std::string other = write(others, false).text;
            const size_t begin = other.find(kOther);
            if (!text.starts_with(until) || begin == std::string::npos) return std::nullopt;
            const bool parts_there = until.size() > begin && other.compare(0, begin, until, 0, begin) == 0;
            return parts_there ? std::optional(TextSpan{begin, until.size()}) : std::nullopt;
        } catch (const UserError&) {
            return std::nullopt;
        }
    }

  private:
    RenderedChat write(const Json& messages, bool add_generation_prompt) {
        RenderedChat made = format_.render({.messages = &messages,
                                            .tools = &tools_,
                                            .add_generation_prompt = add_generation_prompt,
                                            .extra = &chat_.variables},
                                           where_);
        rendered_ += made.text.size();
        if (rendered_ > kChatRenderedBytesMax)
            throw UserError(ExitCode::data, where_, "the conversation is too long to find its answers: {} messages",
                            chat_.messages.size())
                .hint("cut it in several rows, or train_turns: last");
        return made;
    }

    const Chat& chat_;
    const ChatFormat& format_;
    const Json& tools_;
    std::string_view where_;
    size_t rendered_ = 0;
    std::string problem_;
};

// Answers that may be learned, without those that are empty: a model would learn to say nothing.
std::vector<size_t> learnt_answers(const Chat& chat, TrainTurns turns, std::string_view where) {
    std::vector<size_t> answers;
    bool has_answer = false;
    for (size_t i = 0; i < chat.messages.size(); ++i) {
        if (!chat.is_answer(i)) continue;
        has_answer = true;
        if (turns == TrainTurns::last) answers.clear();
        if (chat.may_be_learnt[i]) answers.push_back(i);
    }
    if (answers.empty() && turns != TrainTurns::all) {
        UserError error(ExitCode::data, where, "{}",
                        has_answer ? "none of the answers may be learned" : "no message is an assistant's");
        throw error.hint(has_answer ? "\"train\" true for the last answer"
                                    : "train_turns: all, to learn every message");
    }
    std::erase_if(answers, [&](size_t answer) { return !gives_something(chat.messages[answer]); });
    return answers;
}

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

std::optional<LearntText> in_one_text(Writer& writer, const std::string& text, const std::vector<size_t>& answers) {
    LearntText learnt{.text = text, .messages = answers};
    for (const size_t answer : answers) {
        const std::optional<TextSpan> span = writer.find(answer, text);
        if (!span || (!learnt.spans.empty() && span->begin < learnt.spans.back().end)) return std::nullopt;
        learnt.spans.push_back(*span);
    }
    return learnt;
}

// Each rendering would write all tools: of many, the answers are found in a text with one tool that ends as the whole
// text does, from before the first answer. Nothing where that cannot be shown.
std::optional<LearntText> by_one_tool(const Chat& chat, const ChatFormat& format, Writer& writer,
                                      const std::string& text, const std::vector<size_t>& answers,
                                      std::string_view where) {
    constexpr size_t kManyTools = 64, kManyAnswers = 4;
    if (!chat.tools.is_array() || chat.tools.size() < kManyTools || answers.size() < kManyAnswers) return std::nullopt;
    try {
        const Json one = Json::array({chat.tools.front()});
        Writer brief_writer(chat, format, one, where);
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
    } catch (const UserError&) {
        return std::nullopt;  // the template fails with one tool
    }
}

std::vector<LearntText> one_for_each(Writer& writer, const std::vector<size_t>& answers, std::string_view where) {
    std::vector<LearntText> texts;
    for (const size_t answer : answers) {
        LearntText learnt{.text = writer.first(answer + 1, false), .messages = {answer}};
        std::optional<TextSpan> span = writer.find(answer, learnt.text);
        if (!span) span = writer.find_by_content(answer, learnt.text);
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

// Everything but the messages that must not be learned.
LearntText all_turns(const Chat& chat, Writer& writer, std::string text, std::string_view where) {
    LearntText learnt{.text = std::move(text)};
    size_t begin = 0;
    for (size_t i = 0; i < chat.messages.size(); ++i) {
        if (chat.may_be_learnt[i]) continue;
        const std::string before = writer.first(i, false), until = writer.first(i + 1, false);
        if (!learnt.text.starts_with(until) || !until.starts_with(before))
            throw UserError(ExitCode::data, where, "message {}: it cannot be said where the template writes it", i + 1)
                .hint("train_turns: assistant");
        if (before.size() > begin) learnt.spans.push_back({begin, before.size()});
        begin = until.size();
    }
    if (begin < learnt.text.size()) learnt.spans.push_back({begin, learnt.text.size()});
    return learnt;
}

// The byte of the text after which each token ends; nothing if ids do not spell the text as it is (a normalizer).
std::optional<std::vector<size_t>> ends_in_text(const std::vector<int32_t>& ids, std::string_view text,
                                                const Tokenizer& tokenizer) {
    StreamDecoder decoder(tokenizer, /*skip_special=*/false);
    std::vector<size_t> ends;
    std::string spelled;
    for (const int32_t id : ids) {
        spelled += decoder.push(id);
        ends.push_back(spelled.size());
    }
    spelled += decoder.finish();
    if (!ends.empty()) ends.back() = spelled.size();
    return spelled == text ? std::optional(std::move(ends)) : std::nullopt;
}

// The tokens of a text's span.
class TokenFinder {
  public:
    TokenFinder(std::string_view text, const Tokenizer& tokenizer)
        : text_(text),
          tokenizer_(tokenizer),
          ids_(tokenizer.encode(text, false)),
          ends_(ends_in_text(ids_, text, tokenizer)) {
        if (!ends_) find_marks();
    }

    const std::vector<int32_t>& ids() const { return ids_; }
    // The token that holds the byte at `at`; the number of tokens at the end of the text.
    size_t token_at(size_t at) const {
        if (ends_) return static_cast<size_t>(std::ranges::upper_bound(*ends_, at) - ends_->begin());
        return shared_with(at).first;
    }
    // One past the token that holds the byte before `at`.
    size_t token_after(size_t at) const {
        if (ends_) return at == 0 ? 0 : std::min(ids_.size(), token_at(at - 1) + 1);
        const auto [equal, before] = shared_with(at);
        return std::min(ids_.size(), equal < before ? equal + 1 : equal);
    }

  private:
    // A special token: where it begins in the text, and its place among the tokens.
    struct Mark {
        size_t at = 0, token = 0;
    };

    void find_marks() {
        size_t at = 0;
        for (size_t i = 0; i < ids_.size(); ++i) {
            if (!tokenizer_.is_special(ids_[i])) continue;
            const std::string spelled = tokenizer_.id_to_token(ids_[i]);
            at = text_.find(spelled, at);
            if (at == text_.npos) return;
            marks_.push_back({at, i});
            at += spelled.size();
        }
    }

    // Compares with the tokens of the text before `at`: how many are the same, and how many those are. Text is encoded
    // from the last special token: what is before it does not change what follows.
    std::pair<size_t, size_t> shared_with(size_t at) const {
        const auto next = std::ranges::lower_bound(marks_, at, {}, &Mark::at);
        if (next != marks_.begin()) {
            const Mark& mark = *std::prev(next);
            const std::vector<int32_t> before = tokenizer_.encode(text_.substr(mark.at, at - mark.at), false);
            if (!before.empty() && before[0] == ids_[mark.token]) return shared_from(mark.token, before);
        }
        return shared_from(0, tokenizer_.encode(text_.substr(0, at), false));
    }

    std::pair<size_t, size_t> shared_from(size_t token, const std::vector<int32_t>& before) const {
        const auto rest = std::span(ids_).subspan(token);
        return {token + static_cast<size_t>(std::ranges::mismatch(rest, before).in1 - rest.begin()),
                token + before.size()};
    }

    std::string_view text_;
    const Tokenizer& tokenizer_;
    std::vector<int32_t> ids_;
    std::optional<std::vector<size_t>> ends_;
    std::vector<Mark> marks_;  // in order; none where ends_ are known
};

// Marks an answer's tokens and the one that ends its turn.
void mark_answer(Sample& sample, size_t begin, size_t end, const ChatFormat& format, bool add_eos, size_t message,
                 std::string_view where) {
    const auto ends_turn = [&](size_t token) { return format.ends_turn(sample.ids[token]); };
    size_t stop = end;
    while (stop > begin && !ends_turn(stop - 1)) --stop;
    if (stop == begin) {
        // GLM's turns are ended by the marker of the next role.
        if (end < sample.ids.size() && ends_turn(end)) {
            stop = end + 1;
        } else if (end == sample.ids.size() && add_eos && format.last_end()) {
            sample.ids.push_back(*format.last_end());
            sample.trained.push_back(0);
            stop = end + 1;
        } else {
            throw UserError(ExitCode::data, where,
                            "message {}: the template ({}) ends this answer by no token that ends a text", message + 1,
                            format.place())
                .hint("a template that writes eos_token, or a special token, after an answer, in chat_template: FILE");
        }
    }
    std::fill(sample.trained.begin() + static_cast<std::ptrdiff_t>(begin),
              sample.trained.begin() + static_cast<std::ptrdiff_t>(stop), 1);
}

Sample sample_of(const LearntText& learnt, const ChatFormat& format, bool add_eos, std::string_view where) {
    const TokenFinder finder(learnt.text, format.tokenizer());
    Sample sample{finder.ids(), std::vector<uint8_t>(finder.ids().size(), 0)};
    for (size_t i = 0; i < learnt.spans.size(); ++i) {
        const size_t begin = finder.token_at(learnt.spans[i].begin), end = finder.token_after(learnt.spans[i].end);
        if (learnt.messages.empty())
            std::fill(sample.trained.begin() + static_cast<std::ptrdiff_t>(begin),
                      sample.trained.begin() + static_cast<std::ptrdiff_t>(end), 1);
        else
            mark_answer(sample, begin, end, format, add_eos, learnt.messages[i], where);
    }
    if (!sample.trained.empty()) sample.trained[0] = 0;
    if (sample.trained_count() == 0)
        throw UserError(ExitCode::data, where, "the conversation has nothing to learn")
            .hint("an answer with content, or train_turns: all");
    return sample;
}

std::vector<LearntText> learnt_texts(const Chat& chat, const ChatFormat& format, TrainTurns turns,
                                     const std::vector<size_t>& answers, std::string_view where) {
    Writer writer(chat, format, chat.tools, where);
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
    std::optional<LearntText> learnt = by_one_tool(chat, format, writer, whole.text, answers, where);
    if (learnt || (learnt = in_one_text(writer, whole.text, answers))) {
        texts.push_back(std::move(*learnt));
        return texts;
    }
    return one_for_each(writer, answers, where);
}

}  // namespace

std::vector<Sample> chat_samples(Chat chat, const ChatFormat& format, TrainTurns turns, bool add_eos,
                                 std::string_view where, RowNotes& notes) {
    note_unread(chat, format, where, notes);
    format.adapt(chat.messages, chat.forms, chat.tools);
    const std::vector<size_t> answers = learnt_answers(chat, turns, where);
    std::vector<Sample> samples;
    if (answers.empty() && turns != TrainTurns::all) return samples;
    const std::vector<LearntText> texts = learnt_texts(chat, format, turns, answers, where);
    note_losses(chat, texts, format, where, notes);
    if (chat.had_empty_members)
        notes.add(
            "null members of calls and tools were left out; arguments and tools that are the text of JSON keep theirs",
            where);
    for (const LearntText& learnt : texts) samples.push_back(sample_of(learnt, format, add_eos, where));
    return samples;
}

}  // namespace windlass
