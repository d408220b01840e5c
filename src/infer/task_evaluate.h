// task_evaluate.h: how good a model is at a task.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/task_data.h"
#include "infer/evaluate.h"
#include "infer/generate.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// What an evaluation while training says: one pass over the rows with candidates, two with short answers.
struct TaskEvaluation {
    EvalResult loss;           // of the right candidates' tokens
    std::string_view measure;  // "accuracy"; with short answers "exact_match", that of evaluate_exact
    double value = 0;
};
TaskEvaluation evaluate_task(Engine& engine, const TaskSet& set);

// Rows of one label.
struct LabelCount {
    std::string label;
    int64_t rows = 0;    // that have it
    int64_t chosen = 0;  // where the model takes it
    int64_t right = 0;   // both
};
// By the task's labels; nothing where rows list their candidates.
std::vector<LabelCount> count_labels(const TaskSet& set, const ChoiceResult& result);

struct AnswerResult {
    int64_t rows = 0;
    double score_sum = 0;  // of the task's metric
    int64_t new_tokens = 0;
    double seconds = 0;
    double score() const { return rows > 0 ? score_sum / static_cast<double>(rows) : 0; }
};

// Lets the model write an answer to each row, greedily, and judges it by the task's metric. The engine was made with
// answer_requests(); `vocab`: ids that may be written.
AnswerResult evaluate_answers(Engine& engine, const TaskSet& set, const Tokenizer& tokenizer, int64_t vocab,
                              int64_t capacity);

// Tokens that a prompt and its answer may take together, if a model has context_length positions, and the schedules.
int64_t answer_capacity(const TaskSet& set, int64_t context_length);
std::vector<ScheduleRequest> answer_requests(int64_t capacity);

}  // namespace windlass
