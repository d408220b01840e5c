// batch.h: samples laid out as the micro-batches of a step.
//
// Pure: what a step computes follows from its rows, the shape of a micro-batch and the row length alone. Splitting the
// same rows into other micro-batches gives the same tokens with the same targets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "op/batch.h"
#include "rows/rows.h"
#include "run/objective.h"

namespace windlass {

// One row: samples that share a sequence without seeing each other.
using RowSamples = std::vector<Sample>;

int64_t row_tokens(const RowSamples& row);

// The arrays of a step's micro-batches, and views of them. Move-only: the views point into the arrays.
class StepBatch {
  public:
    // Rows are taken in order, micro_batch_size to a micro-batch, each padded to sequence_length; where rows run out, a
    // row is all padding. pad_token: any id of the vocabulary. A row longer than sequence_length is our bug.
    StepBatch(std::span<const RowSamples> rows, int64_t micro_batch_size, int64_t micro_batches,
              int64_t sequence_length, int32_t pad_token);
    StepBatch(StepBatch&&) = default;
    StepBatch& operator=(StepBatch&&) = default;

    const std::vector<Batch>& micro() const { return micro_; }
    int64_t sequence_length() const { return sequence_length_; }
    int64_t tokens() const { return tokens_; }  // without padding
    int64_t target_tokens() const { return target_tokens_; }
    // What a forward-only step is judged by; nothing: the sum of its losses.
    const ObjectiveRows* objective() const { return objective_ ? &*objective_ : nullptr; }
    void set_objective(std::optional<ObjectiveRows> objective) { objective_ = std::move(objective); }
    // Rows are pairs (op/ops.h, preference), and these the sums of the reference's token losses, row by row; fewer
    // where the last rows are padding, and none where nothing is compared with a reference. with_prompts: what is in
    // front of a preferred answer's first target gets targets too (Batch::answers).
    void set_pairs(std::vector<double> references, bool with_prompts);
    // What the step's loss is the mean over: its targets, its objective's examples, or its pairs.
    int64_t loss_count() const {
        return objective_ ? std::ssize(objective_->examples) : pairs_ ? *pairs_ : target_tokens_;
    }

  private:
    void place_row(const RowSamples& row, int64_t begin);
    void place_padding(int64_t row_begin, int64_t used, int32_t pad_token);
    void add_prompts();

    int64_t sequence_length_ = 0;
    int64_t tokens_ = 0;
    int64_t target_tokens_ = 0;
    std::vector<int32_t> ids_, positions_, doc_start_,
        targets_;  // [micro_batches * micro_batch_size * sequence_length]
    std::vector<Batch> micro_;
    std::optional<ObjectiveRows> objective_;
    std::optional<int64_t> pairs_;  // with an answer to learn on either side
    std::vector<double> references_;
    std::vector<int32_t> answers_;
};

// The first of these rising lengths that holds the longest row.
int64_t bucket_for(std::span<const int64_t> sequence_lengths, std::span<const RowSamples> rows);

// At most four row lengths, rising, that make the least padding when steps of `rows_per_step` rows are drawn from
// samples of these lengths; each step is padded to the first that holds its longest row. The last is the longest
// sample, rounded up where max_length allows. A bucket that saves less than a hundredth of the tokens is left out.
std::vector<int64_t> choose_row_lengths(std::span<const uint32_t> lengths, int64_t rows_per_step, int64_t max_length);

}  // namespace windlass
