#include "train/task_evaluate.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "text/answer_score.h"

namespace windlass {
namespace {

size_t at(int64_t index) {
    return static_cast<size_t>(index);
}

// What stands before the first trained token.
std::span<const int32_t> prompt_of(const Sample& sample) {
    const auto first = std::find(sample.trained.begin(), sample.trained.end(), uint8_t{1});
    return std::span(sample.ids).first(static_cast<size_t>(first - sample.trained.begin()));
}

// The last tokens of a prompt, behind the tokenizer's prefix.
std::vector<int32_t> cut_prompt(std::span<const int32_t> prompt, int64_t room, const Tokenizer& tokenizer) {
    const auto kept = std::min<int64_t>(std::ssize(tokenizer.prefix()), room);
    std::vector<int32_t> ids(prompt.begin(), prompt.end());
    if (std::ssize(ids) > room) ids.erase(ids.begin() + kept, ids.end() - (room - kept));
    return ids;
}

// Writes one answer; `text` ends before the task's stop.
GenerateResult write_answer(Engine& engine, const TaskSpec& task, std::span<const int32_t> prompt,
                            const GenerateOptions& options, const Tokenizer& tokenizer, std::string& text) {
    StreamDecoder decoder(tokenizer, true);
    const GenerateResult result = generate(engine, prompt, options, [&](int32_t id) {
        text += decoder.push(id);
        return task.stop.empty() || text.find(task.stop) == text.npos;
    });
    text += decoder.finish();
    if (!task.stop.empty()) text = text.substr(0, text.find(task.stop));
    return result;
}

}  // namespace

TaskEvaluation evaluate_task(Engine& engine, const TaskSet& set) {
    if (set.task.has_candidates()) {
        const ChoiceResult result = evaluate_choices(engine, set.rows, set.task.score);
        return {.loss = {.loss_sum = result.loss_sum,
                         .target_tokens = result.target_tokens,
                         .rows = result.rows,
                         .seconds = result.seconds},
                .measure = "accuracy",
                .value = result.accuracy()};
    }
    const int64_t start = now_ns();
    const auto read = [&](int64_t first, int64_t count) {
        std::vector<RowSamples> rows;
        for (int64_t row = first; row < first + count; ++row) rows.push_back({set.rows[at(row)].candidates[0]});
        return rows;
    };
    const int64_t count = std::ssize(set.rows);
    TaskEvaluation made{.loss = evaluate_rows(engine, count, read), .measure = "exact_match"};
    made.value = static_cast<double>(evaluate_exact(engine, count, read)) / static_cast<double>(count);
    made.loss.seconds = seconds_since(start);
    return made;
}

std::vector<LabelCount> count_labels(const TaskSet& set, const ChoiceResult& result) {
    std::vector<LabelCount> counts;
    for (const std::string& label : set.task.labels) counts.push_back({.label = label});
    for (size_t row = 0; row < set.rows.size() && !counts.empty(); ++row) {
        const int64_t right = set.rows[row].right, chosen = result.chosen[row];
        ++counts[at(right)].rows;
        ++counts[at(chosen)].chosen;
        if (right == chosen) ++counts[at(right)].right;
    }
    return counts;
}

AnswerResult evaluate_answers(Engine& engine, const TaskSet& set, const Tokenizer& tokenizer, int64_t vocab,
                              int64_t capacity) {
    const int64_t start = now_ns();
    const GenerateOptions options{
        .max_new_tokens = set.task.max_new_tokens, .stop_ids = tokenizer.eos_ids(), .vocab = vocab};
    AnswerResult result{.rows = std::ssize(set.rows)};
    for (size_t row = 0; row < set.rows.size(); ++row) {
        const std::vector<int32_t> prompt =
            cut_prompt(prompt_of(set.rows[row].candidates[0]), capacity - set.task.max_new_tokens, tokenizer);
        if (prompt.empty()) throw UserError(ExitCode::data, set.task.name, "row {} has a prompt of no token", row + 1);
        std::string text;
        result.new_tokens += std::ssize(write_answer(engine, set.task, prompt, options, tokenizer, text).ids);
        result.score_sum += answer_score(set.task.metric, judged_part(set.task, text), set.answers[row]);
    }
    result.seconds = seconds_since(start);
    return result;
}

int64_t answer_capacity(const TaskSet& set, int64_t context_length) {
    if (set.task.max_new_tokens >= context_length)
        throw UserError(ExitCode::usage, set.task.name, "answers of {} tokens, but the model was made for {}",
                        set.task.max_new_tokens, context_length)
            .hint("a task file with a smaller max_new_tokens");
    size_t longest = 1;
    for (const ChoiceRow& row : set.rows) longest = std::max(longest, prompt_of(row.candidates[0]).size());
    return std::min(static_cast<int64_t>(longest) + set.task.max_new_tokens, context_length);
}

std::vector<ScheduleRequest> answer_requests(int64_t capacity) {
    constexpr int64_t kAllChunks = 64 + 16 + 4 + 1;  // a prompt that is fed in chunks of every size
    return decode_requests(kAllChunks, capacity);
}

}  // namespace windlass
