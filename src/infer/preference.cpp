#include "infer/preference.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "infer/evaluate_step.h"
#include "op/preference_loss.h"

namespace windlass {
namespace {

struct RowLosses {
    std::vector<double> sums;
    std::vector<int64_t> tokens;  // with a target
};

RowLosses losses_of(Engine& engine, int64_t row_count, const ReadRows& read) {
    RowLosses losses;
    for (int64_t first = 0; first < row_count;) {
        const std::vector<RowSamples> rows = read(first, std::min(rows_per_step(engine), row_count - first));
        WINDLASS_CHECK(!rows.empty(), "row {} of {} cannot be read", first, row_count);
        const StepBatch batch = batch_of(engine, rows);
        const StepReport report = evaluate_step(engine, batch, true, HeadResult::token_loss);
        for (int64_t row = 0; row < std::ssize(rows); ++row) {
            losses.sums.push_back(row_loss(report, row, batch.sequence_length()));
            int64_t tokens = 0;
            for (const Sample& sample : rows[at(row)]) tokens += sample.trained_count();
            losses.tokens.push_back(tokens);
        }
        first += std::ssize(rows);
    }
    return losses;
}

void add(PreferenceResult& result, double loss, double chosen, double rejected) {
    ++result.pairs;
    result.loss_sum += loss;
    result.chosen_sum += chosen;
    result.rejected_sum += rejected;
    result.margin_sum += chosen - rejected;
    result.right += chosen > rejected;
}

bool has_target(const Batch& batch, int64_t row) {
    const std::span targets(batch.targets + row * batch.sequence_length, at(batch.sequence_length));
    return std::ranges::any_of(targets, [](int32_t target) { return target != kIgnored; });
}

}  // namespace

std::vector<double> row_losses(Engine& engine, int64_t row_count, const ReadRows& read) {
    return losses_of(engine, row_count, read).sums;
}

PreferenceResult evaluate_pairs(Engine& engine, const PreferenceAttrs& attrs, int64_t row_count, const ReadRows& read,
                                const std::vector<double>& references) {
    const int64_t start = now_ns();
    const RowLosses losses = losses_of(engine, row_count, read);
    const bool is_orpo = attrs.kind == PreferenceAttrs::Kind::orpo;
    const auto row_at = [&](size_t row) {
        return PairRow{losses.sums[row], losses.tokens[row], references.empty() ? 0.0 : references[row]};
    };
    PreferenceResult result;
    for (size_t row = 0; row + 1 < losses.sums.size(); row += 2) {
        const PairRow chosen = row_at(row), rejected = row_at(row + 1);
        const PairLoss pair = pair_loss(is_orpo, chosen, rejected, attrs.beta);
        add(result, pair.loss, pair.chosen_reward, pair.rejected_reward);
    }
    result.seconds = seconds_since(start);
    return result;
}

PreferenceResult step_rewards(std::span<const double> token_losses, std::span<const Batch> micro) {
    PreferenceResult result;
    for (const Batch& batch : micro) {
        const auto length = at(batch.sequence_length);
        for (int64_t row = 0; row < batch.rows; row += 2) {
            const auto chosen = token_losses.subspan(at(row) * length, length),
                       rejected = token_losses.subspan(at(row + 1) * length, length);
            const bool has_rewards = batch.sequence_length >= kRewardTokens;
            if (has_rewards && has_target(batch, row) && has_target(batch, row + 1))
                add(result, chosen[0], chosen[1], rejected[1]);
        }
        token_losses = token_losses.subspan(at(batch.rows) * length);
    }
    return result;
}

}  // namespace windlass
