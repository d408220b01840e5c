#include "infer/task_evaluate.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "data/task_answers.h"

namespace windlass {

TaskEvaluation evaluate_task(Engine& engine, const TaskSet& set) {
    if (set.task.has_candidates()) {
        const ChoiceResult result = evaluate_choices(engine, set.rows, set.task.score);
        return {.loss = {.loss_sum = result.loss_sum,
                         .target_tokens = result.target_tokens,
                         .rows = result.rows,
                         .seconds = result.seconds},
                .measure = evaluated_measure(set.task),
                .value = result.accuracy()};
    }
    const int64_t start = now_ns();
    const auto read = [&](int64_t first, int64_t count) {
        std::vector<RowSamples> rows;
        for (int64_t row = first; row < first + count; ++row) rows.push_back({set.rows[at(row)].candidates[0]});
        return rows;
    };
    const int64_t count = std::ssize(set.rows);
    TaskEvaluation made{.loss = evaluate_rows(engine, count, read), .measure = evaluated_measure(set.task)};
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
    for (int64_t row = 0; row < result.rows; ++row) {
        const std::vector<int32_t> prompt =
            answer_prompt(set.rows[at(row)].candidates[0], capacity - set.task.max_new_tokens, tokenizer);
        if (prompt.empty()) throw UserError(ExitCode::data, set.task.name, "row {} has a prompt of no token", row + 1);
        AnswerText text(set.task, tokenizer);
        const auto push = [&](int32_t id) { return text.push(id); };
        result.new_tokens += std::ssize(generate(engine, prompt, options, push).ids);
        result.score_sum += judge_answer(set, row, set.task.metric, text.finish());
    }
    result.seconds = seconds_since(start);
    return result;
}

int64_t answer_capacity(const TaskSet& set, int64_t context_length) {
    if (set.task.max_new_tokens >= context_length)
        throw UserError(ExitCode::usage, set.task.name, "answers of {} tokens, but the model was made for {}",
                        set.task.max_new_tokens, context_length)
            .hint("a task file with a smaller max_new_tokens");
    int64_t longest = 1;
    for (const ChoiceRow& row : set.rows)
        longest = std::max(longest, std::ssize(row.candidates[0].ids) - row.candidates[0].trained_count());
    return std::min(longest + set.task.max_new_tokens, context_length);
}

std::vector<ScheduleRequest> answer_requests(int64_t capacity) {
    return decode_requests(capacity, capacity);
}

}  // namespace windlass
