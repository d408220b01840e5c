// evaluate.h: the loss of a model over rows, and which of several completions it prefers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/choice_row.h"
#include "run/engine.h"
#include "task/task.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

struct EvalResult {
    double loss_sum = 0;  // nats, over all target tokens
    int64_t target_tokens = 0;
    int64_t rows = 0;
    double seconds = 0;

    double loss() const;        // mean over target tokens; NaN without any
    double perplexity() const;  // exp(loss)
};

// Rows [first, first + count) of the evaluated rows; fewer at their end.
using ReadRows = std::function<std::vector<RowSamples>(int64_t first, int64_t count)>;

// Runs the engine's eval schedules over `row_count` rows, in order. Losses are weighted by token, so the result does
// not depend on how rows fall into steps. Keeps no logits. Training state is not touched.
EvalResult evaluate_rows(Engine& engine, int64_t row_count, const ReadRows& read);

struct ChoiceResult {
    int64_t rows = 0;
    int64_t right = 0;
    std::vector<int64_t> chosen;  // by row: the index of the best candidate, the first of equals
    double loss_sum = 0;          // nats, over the tokens of the right candidates
    int64_t target_tokens = 0;    // of the right candidates
    double seconds = 0;
    double accuracy() const { return rows > 0 ? static_cast<double>(right) / static_cast<double>(rows) : 0; }
};

// Takes the candidate with the greatest log-likelihood: the sum over its tokens, or their mean, as MeZO's programs take
// it unless told otherwise.
ChoiceResult evaluate_choices(Engine& engine, const std::vector<ChoiceRow>& rows,
                              CandidateScore score = CandidateScore::sum);

// In how many rows greedy decoding would write exactly the trained tokens: each of them is the likeliest one after
// those before it, the lowest id among equals. Exact, and generates nothing.
int64_t evaluate_exact(Engine& engine, int64_t row_count, const ReadRows& read);

}  // namespace windlass
