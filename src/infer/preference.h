// preference.h: how a model judges pairs of answers, compared with what a reference says of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/evaluate.h"
#include "op/preference_attrs.h"
#include "run/engine.h"

namespace windlass {

// The sum of token losses over each row, in order: -log p of an answer. Of models whose head judges pairs, too.
std::vector<double> row_losses(Engine& engine, int64_t row_count, const ReadRows& read);

// Rewards are beta (log p - log ref), as TRL logs them; of orpo beta log p / tokens.
struct PreferenceResult {
    int64_t pairs = 0;
    int64_t right = 0;  // whose preferred answer has the greater reward
    double loss_sum = 0, margin_sum = 0, chosen_sum = 0, rejected_sum = 0;
    double seconds = 0;

    double loss() const { return mean(loss_sum); }
    double accuracy() const { return mean(static_cast<double>(right)); }
    double margin() const { return mean(margin_sum); }
    double chosen_reward() const { return mean(chosen_sum); }
    double rejected_reward() const { return mean(rejected_sum); }

  private:
    double mean(double sum) const { return pairs > 0 ? sum / static_cast<double>(pairs) : 0; }
};

// Rows 2i and 2i + 1 are a pair; references: row by row, none for orpo.
PreferenceResult evaluate_pairs(Engine& engine, const PreferenceAttrs& attrs, int64_t row_count, const ReadRows& read,
                                const std::vector<double>& references);

// Of a step: token_losses as its head, which judges pairs, left them (StepReport). No pairs where rows are too short to
// hold rewards.
PreferenceResult step_rewards(std::span<const double> token_losses, std::span<const Batch> micro);

}  // namespace windlass
