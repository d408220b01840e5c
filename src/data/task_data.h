// task_data.h: the rows of a task, put into words and tokenised: what training, evaluating and objectives take.
//
// Held in memory: about 10 bytes a token of every candidate, and of chosen rows alone. A sample is the tokenizer's
// prefix, the prompt, and a candidate, which alone is trained; where it is too long the prompt loses its beginning.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/choice_row.h"
#include "task/task.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

struct TaskSet {
    TaskSpec task;
    std::vector<ChoiceRow> rows;                    // with short answers one candidate: what is learned
    std::vector<std::vector<std::string>> answers;  // with short answers, by row: what is right
    RowsReport report;                              // of the right candidates

    int64_t candidates_max() const;
    // Tokens of each row's right candidate, or of every candidate.
    std::vector<uint32_t> right_lengths() const;
    std::vector<uint32_t> all_lengths() const;
    // XXH3 of the task and of all that is above.
    uint64_t sum() const;
};

struct TaskOptions {
    int64_t max_length = 0;  // tokens of a sample
    bool add_eos = false;    // after each candidate, trained
    bool skip_malformed = false;
    std::string demonstrations;  // in front of each prompt
};

// The most rows that a set may have.
inline constexpr int64_t kTaskRowsMax = 10'000'000;

// Rows that these files hold together. Throws UserError(data) for more than kTaskRowsMax.
int64_t count_task_rows(FileSystem& files, std::span<const std::string> paths);

// The chosen rows (rising, counted from 0 over all files), in order. Throws UserError(data) naming file and line: rows
// that the task does not understand, candidates of no token, candidates longer than max_length.
TaskSet read_task_set(FileSystem& files, const TaskSpec& task, std::span<const std::string> paths,
                      std::span<const uint32_t> chosen, const TaskOptions& options, const Tokenizer& tokenizer);

// The text before a prompt: the chosen rows with their right candidates, each followed by the task's separator
// (GPT-3's in-context examples; Brown et al., arXiv 2005.14165).
std::string read_demonstrations(FileSystem& files, const TaskSpec& task, std::span<const std::string> paths,
                                std::span<const uint32_t> chosen);

}  // namespace windlass
