#include "data/task_data.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "format/checksum.h"
#include "rows/row_reader.h"
#include "rows/rows.h"

namespace windlass {
namespace {

// Calls visit(raw row, its place) for each of the chosen rows.
template <typename Visit>
void for_chosen(FileSystem& files, std::span<const std::string> paths, std::span<const uint32_t> chosen, Visit visit) {
    int64_t index = 0;
    auto next = chosen.begin();
    for (const std::string& path : paths) {
        RowReader reader(files, path, "");
        if (reader.is_text())
            throw UserError(ExitCode::data, path, "plain text has no rows, and a task reads rows")
                .hint("a .jsonl, .json, .csv or .tsv file");
        for (std::optional<RawRow> raw; next != chosen.end() && (raw = reader.next()); ++index) {
            if (*next != static_cast<uint32_t>(index)) continue;
            ++next;
            visit(*raw, fmt::format("{}:{}", path, raw->line));
        }
    }
}

class SetMaker {
  public:
    SetMaker(const TaskSpec& task, const TaskOptions& options, const Tokenizer& tokenizer)
        : options_(options), tokenizer_(tokenizer), set_{.task = task} {}

    void add(const RawRow& raw, const std::string& where) {
        ++set_.report.rows;
        try {
            const TaskRow row = read_task_row(set_.task, raw.text_or_refusal(where), where);
            ChoiceRow made{.right = row.right};
            for (const std::string& candidate : row.candidates)
                made.candidates.push_back(sample_of(row.prompt, candidate, where));
            count(made.candidates[static_cast<size_t>(made.right)]);
            set_.rows.push_back(std::move(made));
            if (!set_.task.has_candidates()) set_.answers.push_back(row.answers);
        } catch (UserError& error) {
            if (error.code() != ExitCode::data) throw;
            if (!options_.skip_malformed) {
                offer_to_skip(error);
                throw;
            }
            if (set_.report.malformed++ == 0) log_warning("skipped a malformed row: {}", error.what());
        }
    }
    TaskSet finish() && { return std::move(set_); }

  private:
    Sample sample_of(const std::string& prompt, const std::string& candidate, const std::string& where) const {
        const bool ends = options_.add_eos && tokenizer_.eos();
        Sample sample = completion_sample(tokenizer_, options_.demonstrations + prompt, candidate,
                                          options_.max_length - (ends ? 1 : 0), where);
        if (sample.trained_count() == 0) throw UserError(ExitCode::data, where, "\"{}\" makes no token", candidate);
        if (!ends) return sample;
        sample.ids.push_back(*tokenizer_.eos());
        sample.trained.push_back(1);
        return sample;
    }
    void count(const Sample& sample) {
        ++set_.report.samples;
        set_.report.tokens += std::ssize(sample.ids);
        set_.report.trained_tokens += sample.trained_count();
    }

    const TaskOptions& options_;
    const Tokenizer& tokenizer_;
    TaskSet set_;
};

}  // namespace

int64_t TaskSet::candidates_max() const {
    int64_t most = 0;
    for (const ChoiceRow& row : rows) most = std::max(most, std::ssize(row.candidates));
    return most;
}

std::vector<uint32_t> TaskSet::right_lengths() const {
    std::vector<uint32_t> lengths;
    for (const ChoiceRow& row : rows)
        lengths.push_back(static_cast<uint32_t>(row.candidates[static_cast<size_t>(row.right)].ids.size()));
    return lengths;
}

std::vector<uint32_t> TaskSet::all_lengths() const {
    std::vector<uint32_t> lengths;
    for (const ChoiceRow& row : rows)
        for (const Sample& sample : row.candidates) lengths.push_back(static_cast<uint32_t>(sample.ids.size()));
    return lengths;
}

uint64_t TaskSet::sum() const {
    Xxh3Stream sum;
    // Counts keep neighbouring parts from running into each other.
    const auto add = [&](const auto& numbers) {
        const auto count = static_cast<uint64_t>(numbers.size());
        sum.add(std::as_bytes(std::span(&count, 1)));
        sum.add(std::as_bytes(std::span(numbers)));
    };
    add(task.description);
    for (const ChoiceRow& row : rows) {
        sum.add(std::as_bytes(std::span(&row.right, 1)));
        for (const Sample& sample : row.candidates) {
            add(sample.ids);
            add(sample.trained);
        }
    }
    for (const auto& right : answers)
        for (const std::string& answer : right) add(answer);
    return sum.sum();
}

int64_t count_task_rows(FileSystem& files, std::span<const std::string> paths) {
    int64_t count = 0;
    for (const std::string& path : paths) {
        RowReader reader(files, path, "");
        for (; reader.next(); ++count)
            if (count == kTaskRowsMax) throw UserError(ExitCode::data, path, "more than {} rows", kTaskRowsMax);
    }
    if (count == 0) throw UserError(ExitCode::data, paths.empty() ? "data" : paths.front(), "holds no rows");
    return count;
}

TaskSet read_task_set(FileSystem& files, const TaskSpec& task, std::span<const std::string> paths,
                      std::span<const uint32_t> chosen, const TaskOptions& options, const Tokenizer& tokenizer) {
    SetMaker maker(task, options, tokenizer);
    for_chosen(files, paths, chosen, [&](const RawRow& raw, const std::string& where) { maker.add(raw, where); });
    TaskSet set = std::move(maker).finish();
    if (set.rows.empty())
        throw UserError(ExitCode::data, paths.front(), "there is no row to read: {}", set.report.summary());
    return set;
}

std::string read_demonstrations(FileSystem& files, const TaskSpec& task, std::span<const std::string> paths,
                                std::span<const uint32_t> chosen) {
    std::string text;
    for_chosen(files, paths, chosen, [&](const RawRow& raw, const std::string& where) {
        const TaskRow row = read_task_row(task, raw.text_or_refusal(where), where);
        text += row.prompt + row.candidates[static_cast<size_t>(row.right)];
        text = std::string(stripped(text)) + task.separator;
    });
    return text;
}

}  // namespace windlass
