#include "rows/rows.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/units.h"
#include "rows/chat_format.h"
#include "rows/chat_sample.h"
#include "rows/jq_command.h"
#include "rows/row_reader.h"
#include "rows/row_template.h"
#include "tokenizer/vocab.h"

namespace windlass {
namespace {

using Ids = std::vector<int32_t>;

bool starts_with(std::span<const int32_t> ids, std::span<const int32_t> head) {
    return ids.size() >= head.size() && std::equal(head.begin(), head.end(), ids.begin());
}

// Turns the rows of one file into samples.
class SampleMaker {
  public:
    SampleMaker(const RowsOptions& options, const Tokenizer& tokenizer, const std::function<bool(Sample&&)>& visit)
        : options_(options), tokenizer_(tokenizer), visit_(visit) {}

    RowsReport& report() { return report_; }
    bool wants_more() const { return wants_more_; }

    // The samples of a row: one, of a chat perhaps one for each answer, of a pair two.
    std::vector<Sample> make(Row&& row, std::string_view json, std::string_view where) {
        require_kind(row.format, where);
        if (row.format == RowFormat::preference) return make_pair_of(row, json, where);
        std::vector<Sample> samples;
        if (!row.is_chat) {
            samples.push_back(make_one(std::move(row), where));
            return samples;
        }
        const ChatFormat& format = require_template(where);
        samples = chat_samples(read_chat(json, row.format, options_.fields, where), format, options_.train_turns,
                               options_.add_eos, where, report_.notes);
        if (samples.empty()) ++report_.dropped_empty;
        return samples;
    }

    // Applies the length limit and hands out what remains.
    void deliver(Sample&& sample, RowFormat format, std::string_view where) {
        const auto length = static_cast<int64_t>(sample.ids.size());
        const int64_t limit = options_.max_length;
        if (limit == 0 || length <= limit) return hand_out(std::move(sample));
        const bool is_text = format == RowFormat::text;
        switch (is_text ? options_.text_truncation.value_or(options_.truncation) : options_.truncation) {
            case Truncation::drop:
                ++report_.dropped_long;
                return;
            case Truncation::error:
                throw UserError(ExitCode::data, where, "the row has {} tokens, max_length is {}", length, limit)
                    .hint("raise max_length, or choose truncation: drop, left, right or split");
            case Truncation::left:
                keep_end(sample, limit);
                break;
            case Truncation::right:
                sample.ids.resize(static_cast<size_t>(limit));
                sample.trained.resize(static_cast<size_t>(limit));
                break;
            case Truncation::split:
                ++report_.truncated;
                return split(sample, limit);
        }
        ++report_.truncated;
        hand_out(std::move(sample));
    }

    // Both or none: where one is too long, they are dropped, refused, or lose the beginning.
    void deliver_pair(std::vector<Sample>&& pair, std::string_view where) {
        const auto is_long = [&](const Sample& sample) {
            return options_.max_length > 0 && std::ssize(sample.ids) > options_.max_length;
        };
        if (options_.truncation == Truncation::drop && std::ranges::any_of(pair, is_long)) {
            ++report_.dropped_long;
            return;
        }
        for (Sample& sample : pair) deliver(std::move(sample), RowFormat::preference, where);
    }

  private:
    void require_kind(RowFormat format, std::string_view where) const {
        if (options_.pairs == (format == RowFormat::preference)) return;
        if (options_.pairs)
            throw UserError(ExitCode::usage, where, "the row is {}, and the objective compares pairs of answers",
                            name_of(format))
                .hint("rows with \"chosen\" and \"rejected\", or objective: loss");
        throw UserError(ExitCode::usage, where, "the row is a pair of answers, which the objective does not compare")
            .hint("objective: dpo, or orpo");
    }

    const ChatFormat& require_template(std::string_view where) const {
        if (options_.chats) return *options_.chats;
        throw UserError(ExitCode::usage, where, "the row is a chat, and the model has no chat template")
            .hint("chat_template: FILE, a .jinja file such as that of the model's Instruct version");
    }

    // The answer that is preferred, and the other one.
    std::vector<Sample> make_pair_of(const Row& row, std::string_view json, std::string_view where) {
        std::vector<Sample> samples;
        if (row.is_chat) {
            const ChatFormat& format = require_template(where);
            ChatPair pair = read_chat_pair(json, options_.fields, where);
            for (Chat* chat : {&pair.chosen, &pair.rejected}) {
                std::vector<Sample> made = chat_samples(std::move(*chat), format, TrainTurns::assistant,
                                                        options_.add_eos, where, report_.notes);
                if (made.size() > 1)
                    throw UserError(ExitCode::data, where,
                                    "the template writes the answers of this pair in several texts")
                        .hint("pairs that differ in one answer");
                if (!made.empty()) samples.push_back(std::move(made.front()));
            }
            if (samples.size() < 2) throw UserError(ExitCode::data, where, "an answer of the pair is empty");
        } else {
            for (const std::string* answer : {&row.text, &row.rejected})
                samples.push_back(
                    make_one({.format = RowFormat::completion, .prompt = row.prompt, .text = *answer}, where));
        }
        for (const Sample& sample : samples)
            if (sample.trained_count() == 0)
                throw UserError(ExitCode::data, where, "an answer of the pair has no token");
        return samples;
    }

    Sample make_one(Row&& row, std::string_view where) {
        Sample sample;
        if (row.format == RowFormat::tokens) {
            sample = take_tokens(std::move(row), where);
        } else {
            const size_t body = put_texts(row, sample.ids);
            const bool whole = row.format == RowFormat::text || options_.train_on_prompt;
            sample.trained.assign(sample.ids.size(), whole ? 1 : 0);
            std::fill(sample.trained.begin() + static_cast<std::ptrdiff_t>(body), sample.trained.end(), 1);
            const bool says_something =
                body < sample.ids.size() && (row.format == RowFormat::text || !stripped(row.text).empty());
            if (!says_something && !whole) sample.trained.assign(sample.ids.size(), 0);
            if (says_something) add_eos(sample);
        }
        if (!sample.trained.empty()) sample.trained[0] = 0;
        return sample;
    }

    // Appends prefix, prompt and text to `ids` and answers where the text begins.
    size_t put_texts(const Row& row, Ids& ids) {
        Ids body = tokenizer_.encode(row.prompt + row.text, false);
        size_t prompt_size = 0;
        if (!row.prompt.empty()) {
            Ids prompt = tokenizer_.encode(row.prompt, false);
            prompt_size = prompt.size();
            if (!starts_with(body, prompt)) {
                // A token spans the border. Apart, the prompt is what a user of the model will send.
                ++report_.prefix_mismatches;
                const Ids text = tokenizer_.encode(row.text, false);
                body = std::move(prompt);
                body.insert(body.end(), text.begin(), text.end());
            }
        }
        const auto prefix = tokenizer_.prefix();
        const bool spelled_out = starts_with(body, prefix);
        if (!spelled_out) ids.assign(prefix.begin(), prefix.end());
        const size_t begin = ids.size() + prompt_size;
        ids.insert(ids.end(), body.begin(), body.end());
        return begin;
    }

    void add_eos(Sample& sample) const {
        if (!options_.add_eos || !tokenizer_.eos() || sample.ids.back() == *tokenizer_.eos()) return;
        sample.ids.push_back(*tokenizer_.eos());
        sample.trained.push_back(1);
    }

    Sample take_tokens(Row&& row, std::string_view where) {
        for (const int32_t id : row.ids)
            if (id >= tokenizer_.vocab_size())
                throw UserError(ExitCode::data, where, "the row has the id {}, the tokenizer has {} ids", id,
                                tokenizer_.vocab_size())
                    .hint("rows made with this model's tokenizer");
        if (ends_in_padding(row))
            report_.notes.add("rows of ids end in padding that is trained: \"attention_mask\" hides it", where);
        return {std::move(row.ids), std::move(row.trained)};
    }

    // The last two tokens are the same one that pads, and trained.
    bool ends_in_padding(const Row& row) const {
        const size_t size = row.ids.size();
        if (size < 2 || row.ids[size - 1] != row.ids[size - 2] || !row.trained[size - 1] || !row.trained[size - 2])
            return false;
        return row.ids.back() == tokenizer_.pad() || row.ids.back() == tokenizer_.eos();
    }

    void keep_end(Sample& sample, int64_t limit) const {
        const auto prefix = tokenizer_.prefix();
        size_t kept = starts_with(sample.ids, prefix) ? prefix.size() : 0;
        if (kept >= static_cast<size_t>(limit)) kept = 0;
        const auto cut = static_cast<std::ptrdiff_t>(sample.ids.size() - static_cast<size_t>(limit));
        const auto from = static_cast<std::ptrdiff_t>(kept);
        sample.ids.erase(sample.ids.begin() + from, sample.ids.begin() + from + cut);
        sample.trained.erase(sample.trained.begin() + from, sample.trained.begin() + from + cut);
        sample.trained[0] = 0;
    }

    void split(const Sample& sample, int64_t limit) {
        const auto length = static_cast<int64_t>(sample.ids.size());
        for (int64_t begin = 0; begin + 1 < length; begin += limit - 1) {
            const int64_t end = std::min(begin + limit, length);
            Sample piece{{sample.ids.begin() + begin, sample.ids.begin() + end},
                         {sample.trained.begin() + begin, sample.trained.begin() + end}};
            piece.trained[0] = 0;
            hand_out(std::move(piece));
        }
    }

    void hand_out(Sample&& sample) {
        const int64_t trained = sample.trained_count();
        if (trained == 0) {
            ++report_.dropped_empty;
            return;
        }
        ++report_.samples;
        report_.tokens += static_cast<int64_t>(sample.ids.size());
        report_.trained_tokens += trained;
        if (wants_more_) wants_more_ = visit_(std::move(sample));
    }

    const RowsOptions& options_;
    const Tokenizer& tokenizer_;
    const std::function<bool(Sample&&)>& visit_;
    bool wants_more_ = true;
    RowsReport report_;
};

// That many rows are not at fault themselves, and each of the others would cost as much as these.
constexpr int kRowsPastBoundsMax = 3;

[[noreturn]] void refuse_for_bounds(const ChatFormat& format, const UserError& last) {
    throw UserError(ExitCode::model, format.place(), "the template broke its bounds in {} rows; the last of them: {}",
                    kRowsPastBoundsMax, last.what());
}

std::string_view name_of(Truncation truncation) {
    switch (truncation) {
        case Truncation::drop:
            return "drop";
        case Truncation::left:
            return "left";
        case Truncation::right:
            return "right";
        case Truncation::split:
            return "split";
        case Truncation::error:
            return "error";
    }
    return "";
}

std::string_view name_of(TrainTurns turns) {
    switch (turns) {
        case TrainTurns::assistant:
            return "assistant";
        case TrainTurns::last:
            return "last";
        case TrainTurns::all:
            return "all";
    }
    return "";
}

}  // namespace

int64_t Sample::trained_count() const {
    return std::accumulate(trained.begin(), trained.end(), int64_t{0});
}

RowsReport for_each_sample(FileSystem& files, const std::string& path, const RowsOptions& options,
                           const Tokenizer& tokenizer, const std::function<bool(Sample&&)>& visit) {
    if (options.max_length < 0 || options.max_length == 1)
        throw UserError(ExitCode::usage, "max_length", "{} tokens hold nothing to learn", options.max_length);
    if (options.pairs && (options.truncation == Truncation::split || options.truncation == Truncation::right))
        throw UserError(ExitCode::usage, "truncation", "pairs of answers are not cut at their ends")
            .hint("drop, left or error");
    RowReader reader(files, path, options.document_separator);
    SampleMaker maker(options, tokenizer, visit);
    std::optional<RowFormat> format;
    int rows_past_bounds = 0;
    while (maker.wants_more()) {
        auto raw = reader.next();
        if (!raw) break;
        ++maker.report().rows;
        const std::string where = fmt::format("{}:{}", path, raw->line);
        std::vector<Sample> samples;
        try {
            Row row = reader.is_text() ? Row{.text = std::move(raw->text)}
                                       : read_row(raw->text_or_refusal(where), options.fields, format, where,
                                                  maker.report().notes, /*alpaca_is_chat=*/options.chats != nullptr);
            format = row.format;
            samples = maker.make(std::move(row), raw->text, where);
            for (const Sample& sample : samples) tokenizer.require_rows(sample.ids, where);
        } catch (UserError& error) {
            if (error.code() != ExitCode::data) throw;
            if (dynamic_cast<const TemplateBound*>(&error) != nullptr && ++rows_past_bounds == kRowsPastBoundsMax)
                refuse_for_bounds(*options.chats, error);
            remark_on_digits(error, raw->text);
            if (!options.skip_malformed) {
                offer_to_skip(error);
                throw;
            }
            const bool is_first = maker.report().malformed++ == 0;
            if (options.on_malformed)
                options.on_malformed(error);
            else if (is_first)
                log_warning("skipped a malformed row: {}", error.what());
            continue;
        }
        if (options.pairs)
            maker.deliver_pair(std::move(samples), where);
        else
            for (Sample& sample : samples) maker.deliver(std::move(sample), *format, where);
    }
    if (reader.replaced_line())
        log_warning(
            "{}:{}: bytes that are no UTF-8 became U+FFFD. Try: iconv -f LATIN1 -t UTF-8 FILE > NEW, with the "
            "encoding that the file is in",
            path, *reader.replaced_line());
    if (const std::string expansion = reader.expansion(); !expansion.empty()) log_info("{}: {}", path, expansion);
    return maker.report();
}

void offer_to_skip(UserError& error) {
    const bool names_a_way = std::string_view(error.what()).find(". Try: ") != std::string_view::npos;
    if (!names_a_way) error.hint("mend the row");
    error.or_hint("leave out such rows: skip_malformed=true");
}

void RowsReport::add(const RowsReport& other) {
    rows += other.rows;
    samples += other.samples;
    malformed += other.malformed;
    dropped_long += other.dropped_long;
    dropped_empty += other.dropped_empty;
    truncated += other.truncated;
    prefix_mismatches += other.prefix_mismatches;
    tokens += other.tokens;
    trained_tokens += other.trained_tokens;
    notes.add(other.notes);
}

std::string RowsReport::summary() const {
    std::string out = fmt::format("{}: {}, {} tokens, {} of them trained", counted(rows, "row"),
                                  counted(samples, "sample"), format_count(tokens), format_count(trained_tokens));
    const auto mention = [&](int64_t count, const char* noun, const char* what) {
        if (count > 0) out += fmt::format("; {} {}", counted(count, noun), what);
    };
    mention(malformed, "malformed row", "skipped");
    mention(dropped_long, "row", "longer than max_length dropped");
    mention(truncated, "row", "cut to max_length");
    mention(dropped_empty, "sample", "without a trained token dropped");
    mention(prefix_mismatches, "row", "whose prompt and completion share a token tokenised apart");
    return out;
}

std::string describe(const RowsOptions& options) {
    const FieldNames& names = options.fields;
    std::string out =
        fmt::format("max_length={} truncation={} train_on_prompt={} add_eos={} skip_malformed={}", options.max_length,
                    name_of(options.truncation), options.train_on_prompt, options.add_eos, options.skip_malformed);
    // Lengths keep two lists of strings from looking alike.
    if (options.text_truncation.value_or(options.truncation) != options.truncation)
        out += fmt::format(" text_truncation={}", name_of(*options.text_truncation));
    for (const auto* text : {&options.document_separator, &names.text, &names.prompt, &names.completion,
                             &names.instruction, &names.input, &names.output})
        out += fmt::format(" {}:{}", text->size(), *text);
    if (options.pairs) out += " pairs";
    // What is as it always was stays unsaid: caches of before keep their names.
    if (names.messages != FieldNames().messages) out += fmt::format(" {}:{}", names.messages.size(), names.messages);
    if (options.train_turns != TrainTurns::assistant) out += fmt::format(" turns={}", name_of(options.train_turns));
    if (options.chat_template != "auto")
        out += fmt::format(" {}:{}", options.chat_template.size(), options.chat_template);
    if (options.chats) out += " " + options.chats->description();
    return out;
}

}  // namespace windlass
