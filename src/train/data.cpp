#include "train/data.h"

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "base/math.h"
#include "base/rng.h"
#include "train/user_folder.h"

namespace windlass {
namespace {

size_t at(int64_t index) {
    return static_cast<size_t>(index);
}

void shuffle(std::vector<uint32_t>& indices, Random random) {
    for (size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random.below(i)]);
}

Truncation truncation_of(const std::string& name) {
    if (name == "drop") return Truncation::drop;
    if (name == "left") return Truncation::left;
    if (name == "right") return Truncation::right;
    if (name == "split") return Truncation::split;
    return Truncation::error;
}

}  // namespace

std::vector<uint32_t> shuffled_indices(int64_t count, uint64_t seed, int64_t epoch) {
    WINDLASS_CHECK(std::in_range<uint32_t>(count) && std::in_range<uint32_t>(epoch), "{} samples, epoch {}", count,
                   epoch);
    std::vector<uint32_t> indices(at(count));
    std::iota(indices.begin(), indices.end(), 0u);
    shuffle(indices, Random(seed, RandomStream::shuffle, static_cast<uint32_t>(epoch)));
    return indices;
}

std::vector<uint32_t> validation_indices(int64_t count, double val_split, uint64_t seed) {
    if (val_split <= 0) return {};
    const double wanted = val_split < 1 ? std::ceil(val_split * static_cast<double>(count)) : val_split;
    if (wanted >= static_cast<double>(count))
        throw UserError(ExitCode::data, "val_split", "{} rows are wanted for evaluation, but there are {}", wanted,
                        count)
            .hint("a smaller val_split");
    std::vector<uint32_t> indices(at(count));
    std::iota(indices.begin(), indices.end(), 0u);
    shuffle(indices, Random(seed, RandomStream::split));
    indices.resize(at(static_cast<int64_t>(wanted)));
    std::sort(indices.begin(), indices.end());
    return indices;
}

RowOrder::RowOrder(std::vector<uint32_t> members, std::vector<uint32_t> lengths, int64_t packed_length, uint64_t seed)
    : members_(std::move(members)), lengths_(std::move(lengths)), packed_length_(packed_length), seed_(seed) {
    WINDLASS_CHECK(!members_.empty(), "a run has rows");
}

const std::vector<PackedRow>& RowOrder::order(int64_t epoch) {
    if (epoch == epoch_) return rows_;
    std::vector<uint32_t> samples = shuffled_indices(std::ssize(members_), seed_, epoch);
    for (uint32_t& sample : samples) sample = members_[sample];
    rows_ = packed_length_ > 0 ? pack_samples(lengths_, samples, packed_length_) : rows_without_packing(samples);
    epoch_ = epoch;
    return rows_;
}

int64_t RowOrder::rows_in(int64_t epoch) {
    return packed_length_ > 0 ? std::ssize(order(epoch)) : std::ssize(members_);
}

std::vector<PackedRow> RowOrder::take(DataPosition& position, int64_t count) {
    std::vector<PackedRow> taken;
    while (std::ssize(taken) < count) {
        const std::vector<PackedRow>& rows = order(position.epoch);
        const int64_t here = std::min(count - std::ssize(taken), std::ssize(rows) - position.row);
        taken.insert(taken.end(), rows.begin() + position.row, rows.begin() + position.row + here);
        position.row += here;
        if (position.row == std::ssize(rows)) position = {position.epoch + 1, 0};
    }
    return taken;
}

int64_t RowOrder::rows_in_passes(double epochs) {
    const auto whole = static_cast<int64_t>(std::floor(epochs));
    int64_t rows = 0;
    for (int64_t epoch = 0; epoch < whole; ++epoch) rows += rows_in(epoch);
    const double part = epochs - std::floor(epochs);
    return part > 0 ? rows + static_cast<int64_t>(std::ceil(part * static_cast<double>(rows_in(whole)))) : rows;
}

double RowOrder::passes(const DataPosition& position) {
    return static_cast<double>(position.epoch) +
           static_cast<double>(position.row) / static_cast<double>(rows_in(position.epoch));
}

RowsOptions rows_options(const Config& config) {
    return {.max_length = config.max_length,
            .truncation = truncation_of(config.truncation),
            .train_on_prompt = config.train_on_prompt,
            .add_eos = config.add_eos,
            .skip_malformed = config.skip_malformed,
            .document_separator = config.document_separator,
            .fields = {.text = config.text_field,
                       .prompt = config.prompt_field,
                       .completion = config.completion_field,
                       .instruction = config.instruction_field,
                       .input = config.input_field,
                       .output = config.output_field}};
}

std::string token_cache_folder(const std::string& cache_dir) {
    return cache_dir.empty() ? user_cache_folder() + "/tokens" : cache_dir;
}

RunData RunData::open(FileSystem& files, const Config& config, const Tokenizer& tokenizer) {
    const std::string folder = token_cache_folder(config.cache_dir);
    files.make_folders(folder);
    const RowsOptions options = rows_options(config);
    TokenCache train = TokenCache::open_or_build(files, folder, config.train_data, options, tokenizer);
    const auto seed = static_cast<uint64_t>(config.seed);
    std::vector<uint32_t> held_out = validation_indices(train.size(), config.val_split, seed);
    std::vector<uint32_t> members;
    for (int64_t i = 0, next = 0; i < train.size(); ++i) {
        const bool is_held = next < std::ssize(held_out) && held_out[at(next)] == static_cast<uint32_t>(i);
        if (is_held)
            ++next;
        else
            members.push_back(static_cast<uint32_t>(i));
    }
    const std::vector<uint32_t> lengths(train.lengths().begin(), train.lengths().end());
    RowOrder order(std::move(members), lengths, config.packing ? config.max_length : 0, seed);
    RunData data(std::move(train), std::move(held_out), std::move(order), config.packing);
    if (config.eval_data.empty()) return data;
    data.eval_.push_back(TokenCache::open_or_build(files, folder, {config.eval_data}, options, tokenizer));
    data.eval_rows_.resize(at(data.eval_.front().size()));
    std::iota(data.eval_rows_.begin(), data.eval_rows_.end(), 0u);
    return data;
}

std::vector<RowSamples> RunData::read_training(std::span<const PackedRow> rows) const {
    std::vector<RowSamples> result;
    for (const PackedRow& row : rows) {
        RowSamples& samples = result.emplace_back();
        for (const uint32_t sample : row.samples) samples.push_back(train_.read(sample));
    }
    return result;
}

std::vector<RowSamples> RunData::read_eval(int64_t first, int64_t count) const {
    std::vector<RowSamples> result;
    for (int64_t i = first; i < std::min(first + count, eval_count()); ++i)
        result.push_back({eval_source().read(eval_rows_[at(i)])});
    return result;
}

std::vector<uint32_t> RunData::row_lengths(int64_t max_length) const {
    if (packing_) return {static_cast<uint32_t>(max_length)};
    std::vector<uint32_t> lengths(train_.lengths().begin(), train_.lengths().end());
    if (!eval_.empty()) {
        const auto own = eval_.front().lengths();
        lengths.push_back(*std::max_element(own.begin(), own.end()));
    }
    return lengths;
}

std::string RunData::fingerprint() const {
    const std::string& path = train_.path();
    return path.substr(path.rfind('/') + 1);
}

}  // namespace windlass
