#include "data/task_answers.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "task/answer_score.h"

namespace windlass {
namespace {

std::ptrdiff_t prompt_tokens(const Sample& sample) {
    return std::find(sample.trained.begin(), sample.trained.end(), uint8_t{1}) - sample.trained.begin();
}

}  // namespace

void require_written_answers(const TaskSpec& task, Objective objective) {
    if (task.has_candidates())
        throw UserError(ExitCode::usage, "objective", "{} judges answers that are written; {} has candidates",
                        name_of(objective), task.name)
            .hint("accuracy or choice_loss");
}

std::vector<int32_t> answer_prompt(const Sample& sample, int64_t room, const Tokenizer& tokenizer) {
    const auto kept = std::min<int64_t>(std::ssize(tokenizer.prefix()), room);
    std::vector<int32_t> ids(sample.ids.begin(), sample.ids.begin() + prompt_tokens(sample));
    if (std::ssize(ids) > room) ids.erase(ids.begin() + kept, ids.end() - (room - kept));
    return ids;
}

bool AnswerText::push(int32_t id) {
    text_ += decoder_.push(id);
    return task_.stop.empty() || text_.find(task_.stop) == text_.npos;
}

std::string AnswerText::finish() {
    text_ += decoder_.finish();
    if (!task_.stop.empty()) text_ = text_.substr(0, text_.find(task_.stop));
    return std::move(text_);
}

double judge_answer(const TaskSet& set, int64_t row, TaskMetric metric, std::string_view text) {
    return answer_score(metric, judged_part(set.task, text), set.answers[at(row)]);
}

void make_room_for_answers(TaskSet& set, int64_t max_length, const Tokenizer& tokenizer) {
    const int64_t count = set.task.max_new_tokens, room = max_length - count;
    if (room < 1)
        throw UserError(ExitCode::usage, set.task.name,
                        "answers of {} tokens leave rows of max_length {} no room for a prompt", count, max_length)
            .hint("a greater max_length, or a task file with a smaller max_new_tokens");
    for (size_t row = 0; row < set.rows.size(); ++row) {
        Sample& sample = set.rows[row].candidates[0];
        std::vector<int32_t> ids = answer_prompt(sample, room, tokenizer);
        if (ids.empty()) throw UserError(ExitCode::data, set.task.name, "row {} has a prompt of no token", row + 1);
        const auto learned = std::span(sample.ids).subspan(at(prompt_tokens(sample)));
        const size_t prompt = ids.size();
        ids.insert(ids.end(), learned.begin(), learned.end());
        ids.resize(prompt + at(count), learned.back());
        sample.ids = std::move(ids);
        sample.trained.assign(prompt, 0);
        sample.trained.resize(sample.ids.size(), 1);
    }
}

AnswerRules f1_rules(const TaskSet& set, std::vector<int64_t> rows, const Tokenizer& tokenizer, int64_t id_count) {
    AnswerRules rules{.max_new_tokens = set.task.max_new_tokens, .id_count = id_count, .end_ids = tokenizer.eos_ids()};
    rules.is_whole = [&set, &tokenizer](std::span<const int32_t> ids) {
        AnswerText text(set.task, tokenizer);
        return !std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return text.push(id); });
    };
    rules.loss = [&set, &tokenizer, rows = std::move(rows)](int64_t example, std::span<const int32_t> ids) {
        AnswerText text(set.task, tokenizer);
        for (const int32_t id : ids) text.push(id);
        return 1 - judge_answer(set, rows[at(example)], TaskMetric::f1, text.finish());
    };
    return rules;
}

}  // namespace windlass
