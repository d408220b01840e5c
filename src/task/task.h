// task.h: what the rows of a data file ask, and which answer is right: a small JSON file. tasks/*.json are embedded,
// users may write their own. docs/guide/tasks.md explains every member.
//
//   {"name": "sst2", "about": "...", "prompt": "{sentence:strip} It was",
//    "candidates": {"0": " terrible", "1": " great"}, "label": "{label}"}
//
// A row has candidates (the same in every row, or those that it lists) and one of them is right, or it has a completion
// to be written, and answers to judge it by.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_text.h"
#include "rows/row_template.h"

namespace windlass {

// How good answers are, as a number between 0 and 1 for each row (task/answer_score.h).
enum class TaskMetric : uint8_t { accuracy, f1, exact_match, number };
std::string_view name_of(TaskMetric metric);

// What makes a candidate the best: the mean, or the sum, of its tokens' log-likelihoods.
enum class CandidateScore : uint8_t { mean, sum };

// Candidates that a row lists: the members of a field, or the parts of its text after the last `after`.
struct ListedCandidates {
    std::string field, after, separator;
};

struct TaskSpec {
    std::string name, about;
    RowTemplate prompt;
    // Candidates. Their texts may use fields of the row, and {candidate} where the row lists them.
    std::vector<std::string> labels;
    std::vector<RowTemplate> texts;  // one for each label; one for all where they are listed
    std::optional<ListedCandidates> listed;
    RowTemplate label;            // which of them is right: its label,
    bool label_is_index = false;  // or its index from 0
    CandidateScore score = CandidateScore::mean;
    // Short answers.
    RowTemplate completion;            // the text that is trained
    std::vector<std::string> answers;  // fields with right answers: the first of these that the row has
    std::string answer_after;          // only what is after the last of these is judged; empty: all
    std::string stop;                  // a generation ends before this
    int64_t max_new_tokens = 50;

    TaskMetric metric = TaskMetric::accuracy;
    std::string separator = "\n\n";                                   // between demonstrations
    std::map<std::string, std::map<std::string, std::string>> words;  // field -> its text -> its replacement
    std::string description;  // the JSON that says all this, in one spelling: equal ones make equal rows

    bool has_candidates() const { return !texts.empty(); }
};

// What an evaluation while training reports besides the loss: "accuracy", or of short answers "exact_match".
inline std::string_view evaluated_measure(const TaskSpec& task) {
    return task.has_candidates() ? "accuracy" : "exact_match";
}

inline constexpr int64_t kTaskBytesMax = 64 * 1024;
inline constexpr size_t kTaskCandidatesMax = 64;  // of a row
inline constexpr size_t kTaskAnswersMax = 256;    // of a row

// The embedded tasks, sorted by name.
std::span<const EmbeddedText> task_texts();

// Throws UserError(usage) naming `where` and the member for what is no task.
TaskSpec parse_task(std::string_view text, std::string_view where);
// The task of this name, else the file of this path. Throws UserError(usage) naming the tasks when it is neither.
TaskSpec find_task(FileSystem& files, const std::string& name_or_path);

// A row, put into words.
struct TaskRow {
    std::string prompt;
    std::vector<std::string> candidates;  // with short answers only the completion
    std::vector<std::string> labels;      // of the candidates
    int64_t right = 0;
    std::vector<std::string> answers;  // of short answers, what is judged of them
};

// Throws UserError(data) naming `where`: JSON that is malformed, fields that are missing, labels that no candidate has.
TaskRow read_task_row(const TaskSpec& task, std::string_view json, std::string_view where);

// What the answer to be judged is of a text: what is after the last `answer_after`, without white space at its ends.
std::string judged_part(const TaskSpec& task, std::string_view text);

}  // namespace windlass
