// data.h: the rows of a run and the order in which steps take them.
//
// The order of an epoch is a function of (seed, epoch) and of nothing else. Steps are always full: where an epoch's
// rows do not fill the last step, it goes on with the first rows of the next epoch. (transformers' Trainer makes that
// step smaller instead, which gives its rows more weight.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/pack.h"
#include "text/token_cache.h"
#include "train/batch.h"
#include "train/config.h"

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

// The order of rows over all epochs. Keeps the order of one epoch at a time.
class RowOrder {
  public:
    // members: samples to train on, rising; lengths: of all samples. packed_length 0: one sample a row.
    RowOrder(std::vector<uint32_t> members, std::vector<uint32_t> lengths, int64_t packed_length, uint64_t seed);

    int64_t rows_in(int64_t epoch);
    // The rows of the next step, and where the one after it starts.
    std::vector<PackedRow> take(DataPosition& position, int64_t count);
    // Rows in `epochs` passes, a part of a pass counted by its share.
    int64_t rows_in_passes(double epochs);
    // Passes behind a position.
    double passes(const DataPosition& position);

  private:
    const std::vector<PackedRow>& order(int64_t epoch);

    std::vector<uint32_t> members_, lengths_;
    int64_t packed_length_;
    uint64_t seed_;
    int64_t epoch_ = -1;
    std::vector<PackedRow> rows_;
};

RowsOptions rows_options(const Config& config);

// Training and evaluation rows of a run.
class RunData {
  public:
    // Tokenises what is not in the cache. Throws UserError(data).
    static RunData open(FileSystem& files, const Config& config, const Tokenizer& tokenizer);

    RowOrder& training() { return order_; }
    int64_t eval_count() const { return static_cast<int64_t>(eval_rows_.size()); }
    // Samples of rows, read from the cache.
    std::vector<RowSamples> read_training(std::span<const PackedRow> rows) const;
    std::vector<RowSamples> read_eval(int64_t first, int64_t count) const;

    // Lengths of the rows that steps will see: of samples, or of full rows where they are packed.
    std::vector<uint32_t> row_lengths(int64_t max_length) const;
    const RowsReport& report() const { return train_.report(); }
    // The same for the same rows under the same options and tokenizer.
    std::string fingerprint() const;

  private:
    RunData(TokenCache train, std::vector<uint32_t> eval_rows, RowOrder order, bool packing)
        : train_(std::move(train)), eval_rows_(std::move(eval_rows)), order_(std::move(order)), packing_(packing) {}
    const TokenCache& eval_source() const { return eval_.empty() ? train_ : eval_.front(); }

    TokenCache train_;
    std::vector<TokenCache> eval_;     // one where eval_data is a file of its own
    std::vector<uint32_t> eval_rows_;  // samples of eval_source()
    RowOrder order_;
    bool packing_ = false;
};

// The folder that keeps tokenised rows: cache_dir, else windlass/tokens in the user's cache.
std::string token_cache_folder(const std::string& cache_dir);

}  // namespace windlass
