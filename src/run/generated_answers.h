// generated_answers.h: answers that the model writes, greedily, at each point of a forward-only step that is judged by
// them.
//
// Each point has rows of its own: the prompt, what it has written, and guesses at the rest. A round sends all of them
// through the model once, and the head says which token is the likeliest after each. Where a guess is what the model
// says, the token after it is known as well: so a round gives each answer one token at least, and more where it was
// guessed rightly. What is written is what greedy decoding writes, whatever the guesses were. (Stern et al., "Blockwise
// Parallel Decoding for Deep Autoregressive Models", NeurIPS 2018. The first guesses are those of the batch; later ones
// are what the model said after earlier guesses: Santilli et al., "Accelerating Transformer Inference for Translation
// via Parallel Decoding", ACL 2023.)
// Threads: changed between the passes of a round only, by one thread; read by all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "op/batch.h"
#include "run/objective.h"

namespace windlass {

class GeneratedAnswers {
  public:
    // Answers to the examples of a step at `points` points. The targets of each example's row are one run of
    // AnswerRules::max_new_tokens tokens: the first guess. `rows` and what it refers to outlive it.
    GeneratedAnswers(const ObjectiveRows& rows, std::span<const Batch> micro, int points);

    // The rows that a point reads in the round that comes.
    const Batch& batch(int point, int micro) const;
    // What a round found: HeadResult::argmax of every token of the step's rows, in order.
    void take(int point, std::span<const float> likeliest);

    // Every answer is whole, or one met a logit that is no number.
    bool is_done() const;
    // Tokens written so far, without the one that ended the text.
    std::span<const int32_t> ids(int point, int64_t example) const;
    // By point: the sum of AnswerRules::loss over the examples; NaN where a logit was no number.
    std::vector<double> losses() const;

  private:
    struct Answer {
        std::vector<int32_t> ids;
        bool is_whole = false;
        bool is_wrong = false;
    };
    struct Point {
        std::vector<int32_t> tokens;  // of all rows
        std::vector<Batch> micro;
        std::vector<Answer> answers;  // by example
    };

    void go_on(Answer& answer, std::span<const float> likeliest, std::span<int32_t> guesses) const;
    void add(Answer& answer, int32_t id) const;

    const ObjectiveRows& rows_;
    std::vector<size_t> begins_;  // by example: where its answer begins among the tokens of all rows
    std::vector<Point> points_;
};

}  // namespace windlass
