// task_answers.h: answers that a model writes to the rows of a task: what they begin with, where they end, what they
// are worth. Evaluating and objectives judge them alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/task_data.h"
#include "run/objective.h"

namespace windlass {

// Throws UserError(usage) for a task with candidates.
void require_written_answers(const TaskSpec& task, Objective objective);

// What is before the first trained token of a sample. Where it is more than `room` tokens it loses those after the
// tokenizer's prefix.
std::vector<int32_t> answer_prompt(const Sample& sample, int64_t room, const Tokenizer& tokenizer);

// The text of an answer, token by token. What it refers to outlives it.
class AnswerText {
  public:
    AnswerText(const TaskSpec& task, const Tokenizer& tokenizer) : task_(task), decoder_(tokenizer, true) {}
    // False: it has come to the task's stop, and nothing that follows is part of it.
    bool push(int32_t id);
    // All of it, without the stop.
    std::string finish();

  private:
    const TaskSpec& task_;
    StreamDecoder decoder_;
    std::string text_;
};

// How good a text is as the answer to a row, between 0 and 1.
double judge_answer(const TaskSet& set, int64_t row, TaskMetric metric, std::string_view text);

// Makes each row its prompt, and room for an answer of TaskSpec::max_new_tokens tokens, which are trained: the first
// guess at it is what was to be learned, its last token repeated. Throws UserError(usage) where rows of max_length
// tokens have no room for a prompt, UserError(data) for a prompt of no token.
void make_room_for_answers(TaskSet& set, int64_t max_length, const Tokenizer& tokenizer);

// 1 - F1 of the answers to these rows of a set. `id_count`: ids that may be written are below. What it refers to
// outlives it.
AnswerRules f1_rules(const TaskSet& set, std::vector<int64_t> rows, const Tokenizer& tokenizer, int64_t id_count);

}  // namespace windlass
