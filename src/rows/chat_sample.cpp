#include "rows/chat_sample.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "rows/answer_places.h"
#include "rows/chat_losses.h"
#include "rows/chat_written.h"

namespace windlass {
namespace {

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
