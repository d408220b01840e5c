// best_keeper.h: compares evaluated steps: keeps the best one, and ends a run that gets no better.
#pragma once

#include "train/saver.h"

namespace windlass {

class BestKeeper : public StepListener {
  public:
    // Of a run that compares steps; else it does nothing.
    BestKeeper(LoopState& loop, Saver& saver) : loop_(loop), saver_(saver) {}

    // A resumed run may judge by another metric than before.
    void forget_other_metric();
    // Whether the step that the run resumes after has yet to be judged.
    bool lacks_judgement() const;
    void judge(const StepMetrics& metrics);
    // Saves the step that was judged last, where it is the best.
    void keep();
    // The best step's checkpoint may have been deleted.
    void forget_if_gone();

    void done(const StepDone& /*step*/) override { keep(); }
    bool ends_run() const override;
    void tell_early_stop() const;

  private:
    LoopState& loop_;
    Saver& saver_;
    bool is_new_ = false;  // the last evaluated step; it is not saved yet
    BestStep before_;      // it
};

}  // namespace windlass
