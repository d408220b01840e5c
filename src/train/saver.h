// saver.h: checkpoints, when they are due or asked for. Saving never loses the run: a full disk is a warning, and the
// next save tries again.
#pragma once

#include "train/listener.h"

namespace windlass {

class Saver : public StepListener {
  public:
    explicit Saver(LoopState& loop) : loop_(loop) {}

    void begin() override;
    void done(const StepDone& step) override;
    // What is in memory is saved where the run stops before it is over; on disk every step is kept.
    void stop();
    // Says whether there is a checkpoint of the step.
    bool save();
    // The same of the last step, maybe by a process that was killed after it.
    bool has_saved();

  private:
    bool is_asked();
    void prune();

    LoopState& loop_;
    int64_t saved_step_ = -1;
};

}  // namespace windlass
