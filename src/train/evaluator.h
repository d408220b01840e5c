// evaluator.h: evaluates the model every eval_steps steps, and after the last one.
#pragma once

#include "infer/preference.h"
#include "train/best_keeper.h"

namespace windlass {

// What a line says of pairs.
PairRewards rewards_of(const PreferenceResult& result);

class StepEvaluator : public StepListener {
  public:
    StepEvaluator(LoopState& loop, BestKeeper& best);

    // A resumed run may have been killed between a step's commit and its evaluation: that one follows now.
    void begin() override;
    void told(StepMetrics& metrics) override;

    double loss() const { return loss_; }                   // of the last evaluation; NaN: there was none
    std::optional<double> score() const { return score_; }  // of a task, or of pairs

  private:
    bool is_due_now() const;
    void evaluate(StepMetrics& metrics);
    void evaluate_preferences(StepMetrics& metrics);

    LoopState& loop_;
    BestKeeper& best_;
    double loss_;
    std::optional<double> score_;
};

}  // namespace windlass
