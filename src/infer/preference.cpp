#include "infer/preference.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "infer/evaluate_step.h"
#include "op/preference_loss.h"

namespace windlass {
namespace {

// Where a row's answer begins, after a prompt that has targets.
int64_t answer_of(const StepBatch& batch, int64_t row) {
    for (const Batch& micro : batch.micro()) {
        if (row < micro.rows) return micro.answers[row];
        row -= micro.rows;
    }
    WINDLASS_CHECK(false, "the step has no row {} more", row);
    return 0;
}

// What each row has to say of its answer, and of a prompt that has targets.
std::vector<PairRow> losses_of(Engine& engine, int64_t row_count, const ReadRows& read, bool with_prompts) {
    std::vector<PairRow> losses;
    for (int64_t first = 0; first < row_count;) {
        const std::vector<RowSamples> rows = read(first, std::min(rows_per_step(engine), row_count - first));
        WINDLASS_CHECK(!rows.empty(), "row {} of {} cannot be read", first, row_count);
        StepBatch batch = batch_of(engine, rows);
        if (with_prompts) batch.set_pairs({}, with_prompts);
        const StepReport report = evaluate_step(engine, batch, true, HeadResult::token_loss);
        for (int64_t row = 0; row < std::ssize(rows); ++row) {
            const int64_t answer = with_prompts ? answer_of(batch, row) : 0;
            PairRow& made = losses.emplace_back();
            for (const Sample& sample : rows[at(row)]) made.tokens += sample.trained_count();
            made.prompt_tokens = answer;
            made.loss = row_loss(report, row, batch.sequence_length());
            for (int64_t i = 0; i < answer; ++i)
                made.prompt_loss += report.token_losses[at(row * batch.sequence_length() + i)];
            made.loss -= made.prompt_loss;
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
    std::vector<double> sums;
    for (const PairRow& row : losses_of(engine, row_count, read, /*with_prompts=*/false)) sums.push_back(row.loss);
    return sums;
}

PreferenceResult evaluate_pairs(Engine& engine, const PreferenceAttrs& attrs, int64_t row_count, const ReadRows& read,
                                const std::vector<double>& references) {
    const int64_t start = now_ns();
    std::vector<PairRow> rows = losses_of(engine, row_count, read, attrs.with_prompt);
    for (size_t row = 0; row < references.size(); ++row) rows[row].reference = references[row];
    const bool is_orpo = attrs.kind == PreferenceAttrs::Kind::orpo;
    PreferenceResult result;
    for (size_t row = 0; row + 1 < rows.size(); row += 2) {
        const PairLoss pair = pair_loss(is_orpo, rows[row], rows[row + 1], attrs.beta);
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
