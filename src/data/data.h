// data.h: the rows of a run and the order in which steps take them.
//
// The order of an epoch is a function of (seed, epoch) and of nothing else. Steps are always full: where an epoch's
// rows do not fill the last step, the first rows of the next epoch follow. (transformers' Trainer makes that
// step smaller instead, which gives its rows more weight.)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "data/task_data.h"
#include "rows/pack.h"
#include "rows/token_cache.h"
#include "run/objective.h"

namespace windlass {

// The row that comes next.
struct DataPosition {
    int64_t epoch = 0;
    int64_t row = 0;
    bool operator==(const DataPosition&) const = default;
};

// [0, count) in the order of this epoch: Fisher-Yates with numbers keyed by (seed, epoch).
std::vector<uint32_t> shuffled_indices(int64_t count, uint64_t seed, int64_t epoch);

// The samples that val_split takes out (see Config::val_split), rising; chosen by the seed.
std::vector<uint32_t> validation_indices(int64_t count, double val_split, uint64_t seed);

// At most `wanted` of the indices, chosen by the seed, in their order; without a number all of them.
// `draw` tells several choices of one run apart.
std::vector<uint32_t> chosen_indices(std::vector<uint32_t> indices, std::optional<int64_t> wanted, uint64_t seed,
                                     uint32_t draw);

// Draws of a run; val_split is draw 0.
inline constexpr uint32_t kDrawEvaluation = 2, kDrawDemonstrations = 3;
// The rows of eval_data that are evaluated, of `count`: eval_samples of them.
std::vector<uint32_t> choose_eval_rows(int64_t count, const Config& config);

// The order of rows over all epochs. Keeps the order of one epoch at a time.
class RowOrder {
  public:
    // members: samples to train on, rising; lengths: of all samples. packed_length 0: one sample a row.
    RowOrder(std::vector<uint32_t> members, std::vector<uint32_t> lengths, int64_t packed_length, uint64_t seed);

    int64_t rows_in(int64_t epoch) const;
    // The rows of the next step, and where the one after it starts.
    std::vector<PackedRow> take(DataPosition& position, int64_t count) const;
    // The row that comes after the first `count`. As fast for many passes as for one if rows are not packed.
    DataPosition position_after(int64_t count) const;
    // Rows in `epochs` passes, a part of a pass counted by its share.
    int64_t rows_in_passes(double epochs) const;
    // Passes completed at a position.
    double passes(const DataPosition& position) const;

  private:
    const std::vector<PackedRow>& order(int64_t epoch) const;

    std::vector<uint32_t> members_, lengths_;
    int64_t packed_length_;
    uint64_t seed_;
    // The order of the epoch that was asked for last.
    mutable int64_t epoch_ = -1;
    mutable std::vector<PackedRow> rows_;
};

RowsOptions rows_options(const Config& config);

// Training and evaluation rows of a run: samples out of a token cache, or the rows of a task.
//
// Where an objective compares candidates, a training example is as many rows of a step as a row of the task has
// candidates at most; what it does not use is padding. Where it judges answers that are written, a row is a prompt and
// room for the answer.
class RunData {
  public:
    // Tokenises what is not in the cache. Throws UserError(data); UserError(usage) for an objective that the rows
    // cannot be judged by.
    static RunData open(FileSystem& files, const Config& config, const Tokenizer& tokenizer);

    const RowOrder& training() const { return order_; }
    // Examples of the first epoch; where rows are packed, of the others nearly.
    int64_t epoch_rows() const { return epoch_rows_; }
    int64_t rows_per_example() const { return rows_per_example_; }
    // Examples are pairs of answers: two rows of a step, and two samples of the cache.
    bool has_pairs() const { return compares_pairs(objective_); }
    // Rows of the pairs [first, first + count) of all that are trained or evaluated on, two for each.
    int64_t pair_count() const { return train_ ? train_->size() / 2 : 0; }
    std::vector<RowSamples> read_pairs(int64_t first, int64_t count) const;
    int64_t eval_count() const;
    // The rows of a step, rows_per_example() for each of these.
    std::vector<RowSamples> read_training(std::span<const PackedRow> rows) const;
    // What such a step is judged by; nothing: the sum of its losses. Of answers that are written, `id_count`: the ids
    // that may be are below. It refers to these rows and the tokenizer.
    std::optional<ObjectiveRows> objective(std::span<const PackedRow> rows, const Tokenizer& tokenizer,
                                           int64_t id_count) const;
    std::vector<RowSamples> read_eval(int64_t first, int64_t count) const;
    // Where rows are those of a task.
    const TaskSet* eval_task() const { return eval_task_ ? &*eval_task_ : nullptr; }

    // Lengths of the rows that steps will see: of samples, or of full rows where they are packed.
    std::vector<uint32_t> sequence_lengths(int64_t max_length) const;
    // They are written as chats, by a template.
    bool has_chats() const { return has_chats_; }
    // What trained answers and texts end with, where they do.
    std::optional<int32_t> text_end() const { return text_end_; }
    // Special tokens that the chat template writes; empty where rows are no chats.
    const std::vector<int32_t>& template_ids() const { return template_ids_; }
    // The date that the chat template of these rows prints; empty where none does.
    const std::string& template_date() const { return template_date_; }
    // Its text, where it is not the model's own; empty where it is.
    const std::string& chat_template() const { return chat_template_; }
    const RowsReport& report() const { return task_ ? task_->report : train_->report(); }
    // The same for the same rows under the same options, tokenizer and objective.
    std::string fingerprint() const;
    // The same of the rows that are evaluated.
    std::string eval_fingerprint() const;

  private:
    RunData(RowOrder order, const Config& config);
    static RunData open_cached(FileSystem& files, const Config& config, const Tokenizer& tokenizer);
    static RunData open_task(FileSystem& files, const Config& config, const Tokenizer& tokenizer);
    void check_objective() const;
    const TokenCache& eval_source() const { return eval_ ? *eval_ : *train_; }
    // The one sample of a training row that is no packed one.
    Sample sample_of(uint32_t row) const;

    std::optional<TokenCache> train_;
    std::optional<TokenCache> eval_;   // where eval_data is a file of its own
    std::vector<uint32_t> eval_rows_;  // samples of eval_source()
    std::optional<TaskSet> task_, eval_task_;
    RowOrder order_;
    Objective objective_;
    int64_t rows_per_example_ = 1, epoch_rows_ = 0;
    std::optional<int64_t> train_samples_;
    bool packing_ = false;
    bool has_chats_ = false;
    std::string template_date_, chat_template_;
    std::optional<int32_t> text_end_;
    std::vector<int32_t> template_ids_;
};

}  // namespace windlass
