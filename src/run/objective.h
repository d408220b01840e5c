// objective.h: what a forward-only step is judged by, where that is not the sum of its token losses.
//
// Methods that never go backward ask for numbers and nothing else: at each of their points the objective of the step's
// rows takes the place of the sum of losses, and the method does not notice. (MeZO, section 5.4 of "Fine-Tuning
// Language Models with Just Forward Passes", NeurIPS 2023, learns from accuracy so.) Made on the host, in one order,
// from the token losses of whole rows: placement does not change a bit of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "method/recipe.h"
#include "op/batch.h"

namespace windlass {

enum class Objective : uint8_t {
    loss,         // the sum of token losses: no objective of its own
    choice_loss,  // -log of the right candidate's share, of a softmax over the candidates' scores
    accuracy,     // 1 where another candidate than the right one is the best
    exact_match,  // 1 where greedy decoding would not write the trained tokens just so
    f1,           // 1 - F1 of the words that greedy decoding writes
    dpo,
    orpo,  // of pairs of answers: the head itself makes this loss (op/ops.h, preference)
};

std::string_view name_of(Objective objective);
std::optional<Objective> objective_from_name(std::string_view name);
// A step of it writes answers, over several rounds (generated_answers.h).
bool writes_answers(Objective objective);
// Rows are pairs, one answer preferred to the other.
bool compares_pairs(Objective objective);

// Neighbouring rows of a step that make one example: its candidates, or the one row of exact_match and f1.
struct ObjectiveExample {
    int64_t first_row = 0;
    int64_t row_count = 1;
    int64_t right = 0;  // of the rows, counted from first_row
};

// How the answers of a step are written, and judged by one who knows tokens as text.
struct AnswerRules {
    int64_t max_new_tokens = 0;
    int64_t id_count = 0;          // ids that may be written are below
    std::vector<int32_t> end_ids;  // end of text; they are no part of an answer
    // Whether the answer ends with these tokens: nothing after them is part of it.
    std::function<bool(std::span<const int32_t> ids)> is_whole;
    // Between 0 and 1: how far the answer to one of the step's examples is from a right one.
    std::function<double(int64_t example, std::span<const int32_t> ids)> loss;
};

struct ObjectiveRows {
    Objective kind = Objective::loss;
    bool by_mean = true;  // a candidate's score is the mean of its tokens' log-likelihoods; else their sum
    std::vector<ObjectiveExample> examples;
    std::optional<AnswerRules> answers;  // where it writes them
};

// Sets what the head is to say of each token; `rows` null: the loss.
void ask_head(const ObjectiveRows* rows, StepParams& params);

// A candidate, as the model sees it.
struct CandidateLoss {
    double loss_sum = 0;  // nats, over its tokens
    int64_t target_tokens = 0;

    double score(bool by_mean) const;  // a log-likelihood
};

// The index of the candidate with the greatest score, the first of equals; a score that is not a number is never it.
int64_t best_candidate(std::span<const CandidateLoss> candidates, bool by_mean);

// The sums of token results over each of the step's rows, of one of the numbers that the recipe decides by.
using RowSums = std::function<std::vector<double>(int result)>;

// What the recipe decides by: for each of its numbers the objective's sum over the examples. Of a tangent pass the
// derivatives of choice_loss follow from those of the rows; the other objectives have none. Not for answers that are
// written: GeneratedAnswers::losses.
std::vector<double> judge_step(const ObjectiveRows& rows, const Recipe& recipe, std::span<const Batch> micro,
                               const RowSums& sums);

}  // namespace windlass
