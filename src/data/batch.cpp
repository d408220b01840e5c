#include "data/batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"

namespace windlass {
namespace {

constexpr int64_t kRowLengthStep = 16;  // tokens: row lengths are multiples of this where max_length allows
constexpr size_t kBucketsMax = 4;
constexpr int64_t kCandidatesMax = 128;  // row lengths that are considered
constexpr double kSavingMin = 0.01;      // of a step's tokens: what another schedule must save

struct Candidate {
    int64_t length = 0;
    double share = 0;  // of steps whose longest row is in (the length before, this one]
};

// P(longest of n rows <= L) = F(L)^n, for row lengths spread evenly up to the longest sample.
std::vector<Candidate> candidates(std::span<const uint32_t> lengths, int64_t rows_per_step, int64_t max_length) {
    const int64_t longest = std::max<int64_t>(2, *std::max_element(lengths.begin(), lengths.end()));
    const int64_t step = round_up(div_up(longest, kCandidatesMax), kRowLengthStep);
    std::vector<int64_t> counts(at(div_up(longest, step)), 0);
    for (const uint32_t length : lengths) ++counts[at(div_up<int64_t>(std::max<uint32_t>(length, 1), step) - 1)];
    std::vector<Candidate> result;
    double below = 0, seen = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
        seen += static_cast<double>(counts[i]);
        const double within = std::pow(seen / static_cast<double>(lengths.size()), static_cast<double>(rows_per_step));
        const int64_t length = std::min((static_cast<int64_t>(i) + 1) * step, max_length);
        result.push_back({length, within - below});
        below = within;
    }
    return result;
}

}  // namespace

int64_t row_tokens(const RowSamples& row) {
    int64_t tokens = 0;
    for (const Sample& sample : row) tokens += std::ssize(sample.ids);
    return tokens;
}

StepBatch::StepBatch(std::span<const RowSamples> rows, int64_t micro_batch_size, int64_t micro_batches,
                     int64_t sequence_length, int32_t pad_token)
    : sequence_length_(sequence_length) {
    const int64_t row_count = micro_batch_size * micro_batches;
    WINDLASS_CHECK(std::ssize(rows) <= row_count, "{} rows for a step of {}", rows.size(), row_count);
    for (auto* array : {&ids_, &positions_, &doc_start_}) array->resize(at(row_count * sequence_length));
    targets_.assign(at(row_count * sequence_length), kIgnored);
    for (int64_t row = 0; row < row_count; ++row) {
        const int64_t begin = row * sequence_length;
        const int64_t used = row < std::ssize(rows) ? row_tokens(rows[at(row)]) : 0;
        WINDLASS_CHECK(used <= sequence_length, "a row of {} tokens in one of {}", used, sequence_length);
        if (used > 0) place_row(rows[at(row)], begin);
        place_padding(begin, used, pad_token);
    }
    for (int64_t micro = 0; micro < micro_batches; ++micro) {
        const size_t begin = at(micro * micro_batch_size * sequence_length);
        micro_.push_back({.rows = micro_batch_size,
                          .sequence_length = sequence_length,
                          .tokens = &ids_[begin],
                          .positions = &positions_[begin],
                          .doc_start = &doc_start_[begin],
                          .targets = &targets_[begin]});
    }
}

void StepBatch::place_row(const RowSamples& row, int64_t begin) {
    int64_t start = 0;
    for (const Sample& sample : row) {
        const int64_t count = std::ssize(sample.ids);
        for (int64_t i = 0; i < count; ++i) {
            const size_t to = at(begin + start + i);
            ids_[to] = sample.ids[at(i)];
            positions_[to] = static_cast<int32_t>(i);
            doc_start_[to] = static_cast<int32_t>(start);
            if (i + 1 == count || sample.trained[at(i + 1)] == 0) continue;
            targets_[to] = sample.ids[at(i + 1)];
            ++target_tokens_;
        }
        start += count;
    }
    tokens_ += start;
}

void StepBatch::place_padding(int64_t row_begin, int64_t used, int32_t pad_token) {
    for (int64_t i = used; i < sequence_length_; ++i) {
        ids_[at(row_begin + i)] = pad_token;
        positions_[at(row_begin + i)] = static_cast<int32_t>(i - used);
        doc_start_[at(row_begin + i)] = static_cast<int32_t>(used);
    }
}

// Of rows 0, 2, ...: each token that is not the first is what the one before it should predict.
void StepBatch::add_prompts() {
    const int64_t rows = std::ssize(targets_) / sequence_length_;
    answers_.assign(at(rows), 0);
    for (int64_t row = 0; row < rows; row += 2) {
        const size_t begin = at(row * sequence_length_);
        int32_t answer = 0;
        while (answer < sequence_length_ && targets_[begin + at(answer)] == kIgnored) ++answer;
        if (answer == sequence_length_) continue;  // padding
        answers_[at(row)] = answer;
        for (size_t i = begin; i < begin + at(answer); ++i) targets_[i] = ids_[i + 1];
        target_tokens_ += answer;
    }
}

void StepBatch::set_pairs(std::vector<double> references, bool with_prompts) {
    if (with_prompts) add_prompts();
    const int64_t rows = std::ssize(targets_) / sequence_length_;
    references.resize(at(rows), 0.0);
    references_ = std::move(references);
    const auto has_target = [&](int64_t row) {
        const std::span targets = std::span(targets_).subspan(at(row * sequence_length_), at(sequence_length_));
        return std::ranges::any_of(targets, [](int32_t target) { return target != kIgnored; });
    };
    pairs_ = 0;
    for (int64_t row = 0; row + 1 < rows; row += 2) *pairs_ += has_target(row) && has_target(row + 1);
    int64_t first = 0;
    for (Batch& batch : micro_) {
        batch.references = &references_[at(first)];
        if (with_prompts) batch.answers = &answers_[at(first)];
        first += batch.rows;
    }
}

int64_t bucket_for(std::span<const int64_t> sequence_lengths, std::span<const RowSamples> rows) {
    int64_t longest = 0;
    for (const RowSamples& row : rows) longest = std::max(longest, row_tokens(row));
    for (const int64_t length : sequence_lengths) {
        if (longest <= length) return length;
    }
    WINDLASS_CHECK(false, "no row length holds {} tokens", longest);
    return 0;
}

std::vector<int64_t> choose_row_lengths(std::span<const uint32_t> lengths, int64_t rows_per_step, int64_t max_length) {
    WINDLASS_CHECK(!lengths.empty() && rows_per_step > 0, "row lengths are chosen from samples");
    const std::vector<Candidate> all = candidates(lengths, rows_per_step, max_length);
    const size_t count = all.size();
    std::vector<double> share_up_to(count + 1, 0);
    for (size_t i = 0; i < count; ++i) share_up_to[i + 1] = share_up_to[i] + all[i].share;
    // cost[b][i]: least mean row length of steps up to candidate i, when i is the last of b + 1 buckets.
    std::vector<std::vector<double>> cost(kBucketsMax,
                                          std::vector<double>(count, std::numeric_limits<double>::infinity()));
    std::vector<std::vector<size_t>> before(kBucketsMax, std::vector<size_t>(count, 0));
    const auto span_cost = [&](size_t begin, size_t end) {
        return (share_up_to[end + 1] - share_up_to[begin]) * static_cast<double>(all[end].length);
    };
    for (size_t i = 0; i < count; ++i) cost[0][i] = span_cost(0, i);
    for (size_t b = 1; b < kBucketsMax; ++b) {
        for (size_t i = b; i < count; ++i) {
            for (size_t j = b - 1; j < i; ++j) {
                const double total = cost[b - 1][j] + span_cost(j + 1, i);
                if (total < cost[b][i]) cost[b][i] = total, before[b][i] = j;
            }
        }
    }
    size_t buckets = 0;
    for (size_t b = 1; b < kBucketsMax && b < count; ++b) {
        if (cost[b][count - 1] < cost[buckets][count - 1] * (1.0 - kSavingMin)) buckets = b;
    }
    std::vector<int64_t> chosen;
    for (size_t b = buckets, i = count - 1;; i = before[b][i], --b) {
        chosen.insert(chosen.begin(), all[i].length);
        if (b == 0) break;
    }
    return chosen;
}

}  // namespace windlass
