#include "run/objective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"

namespace windlass {
namespace {

std::vector<int64_t> targets_by_row(std::span<const Batch> micro) {
    std::vector<int64_t> counts;
    for (const Batch& batch : micro) {
        for (int64_t row = 0; row < batch.rows; ++row) {
            const std::span targets(batch.targets + row * batch.sequence_length, at(batch.sequence_length));
            counts.push_back(std::ssize(targets) - std::count(targets.begin(), targets.end(), kIgnored));
        }
    }
    return counts;
}

// -log softmax(scores)[right], and how it changes where the scores change.
struct ChoiceLoss {
    double loss = 0;
    std::vector<double> shares;  // softmax(scores)
};

ChoiceLoss choice_loss(std::span<const CandidateLoss> candidates, int64_t right, bool by_mean) {
    double most = -std::numeric_limits<double>::infinity(), total = 0;
    for (const CandidateLoss& each : candidates) most = std::max(most, each.score(by_mean));
    ChoiceLoss made;
    for (const CandidateLoss& each : candidates) {
        made.shares.push_back(std::exp(each.score(by_mean) - most));
        total += made.shares.back();
    }
    for (double& share : made.shares) share /= total;
    made.loss = std::log(total) - (candidates[at(right)].score(by_mean) - most);
    return made;
}

class Judge {
  public:
    Judge(const ObjectiveRows& rows, std::span<const Batch> micro) : rows_(rows), targets_(targets_by_row(micro)) {}

    double value(const std::vector<double>& sums) const {
        double total = 0;
        for (const ObjectiveExample& example : rows_.examples) total += value_of(example, sums);
        return total;
    }

    // Of choice_loss, where the rows' sums change by `changes`.
    double derivative(const std::vector<double>& sums, const std::vector<double>& changes) const {
        WINDLASS_CHECK(rows_.kind == Objective::choice_loss, "this objective has no derivative");
        double total = 0;
        for (const ObjectiveExample& example : rows_.examples) {
            const ChoiceLoss loss = choice_loss(candidates_of(example, sums), example.right, rows_.by_mean);
            const std::vector<CandidateLoss> change = candidates_of(example, changes);
            for (int64_t i = 0; i < example.row_count; ++i)
                total += (loss.shares[at(i)] - (i == example.right ? 1 : 0)) * change[at(i)].score(rows_.by_mean);
        }
        return total;
    }

  private:
    std::vector<CandidateLoss> candidates_of(const ObjectiveExample& example, const std::vector<double>& sums) const {
        std::vector<CandidateLoss> candidates;
        for (int64_t row = example.first_row; row < example.first_row + example.row_count; ++row)
            candidates.push_back({sums[at(row)], targets_[at(row)]});
        return candidates;
    }

    double value_of(const ObjectiveExample& example, const std::vector<double>& sums) const {
        const double misses = sums[at(example.first_row)];
        if (rows_.kind == Objective::exact_match) return std::isnan(misses) ? misses : misses > 0 ? 1 : 0;
        const std::vector<CandidateLoss> candidates = candidates_of(example, sums);
        if (rows_.kind == Objective::choice_loss) return choice_loss(candidates, example.right, rows_.by_mean).loss;
        // A loss that is not a number must not pass for a wrong answer.
        for (const CandidateLoss& each : candidates)
            if (!std::isfinite(each.loss_sum)) return std::numeric_limits<double>::quiet_NaN();
        return best_candidate(candidates, rows_.by_mean) == example.right ? 0 : 1;
    }

    const ObjectiveRows& rows_;
    std::vector<int64_t> targets_;
};

constexpr std::array<std::string_view, 7> kNames = {"loss", "choice_loss", "accuracy", "exact_match",
                                                    "f1",   "dpo",         "orpo"};

}  // namespace

std::string_view name_of(Objective objective) {
    return kNames[static_cast<size_t>(objective)];
}

std::optional<Objective> objective_from_name(std::string_view name) {
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) return std::nullopt;
    return static_cast<Objective>(found - kNames.begin());
}

bool writes_answers(Objective objective) {
    return objective == Objective::f1;
}

bool compares_pairs(Objective objective) {
    return objective == Objective::dpo || objective == Objective::orpo;
}

void ask_head(const ObjectiveRows* rows, StepParams& params) {
    params.head.result = HeadResult::loss;
    if (rows == nullptr) return;
    if (rows->kind == Objective::exact_match) params.head.result = HeadResult::is_wrong;
    if (!writes_answers(rows->kind)) return;
    params.head.result = HeadResult::argmax;
    params.head.id_count = rows->answers->id_count;
}

double CandidateLoss::score(bool by_mean) const {
    return by_mean && target_tokens > 0 ? -loss_sum / static_cast<double>(target_tokens) : -loss_sum;
}

int64_t best_candidate(std::span<const CandidateLoss> candidates, bool by_mean) {
    int64_t best = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < candidates.size(); ++i) {
        const double score = candidates[i].score(by_mean);
        if (!(score > most)) continue;
        most = score;
        best = static_cast<int64_t>(i);
    }
    return best;
}

std::vector<double> judge_step(const ObjectiveRows& rows, const Recipe& recipe, std::span<const Batch> micro,
                               const RowSums& sums) {
    WINDLASS_CHECK(!writes_answers(rows.kind), "written answers are judged as text");
    const Judge judge(rows, micro);
    std::vector<double> results;
    for (const RecipePass& pass : recipe.passes) {
        const int first = static_cast<int>(results.size());
        if (pass.kind != PassKind::tangent) {
            for (int point = 0; point < pass.k; ++point) results.push_back(judge.value(sums(first + point)));
            continue;
        }
        const std::vector<double> losses = sums(first);
        results.push_back(judge.value(losses));
        for (int j = 1; j <= pass.k; ++j) results.push_back(judge.derivative(losses, sums(first + j)));
    }
    return results;
}

}  // namespace windlass
