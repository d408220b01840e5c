// Nothing multiplies faster than the machine can, and true rates make no plan several times too long: such a step shows
// that the machine was busy when its rates were measured. From then on no share of its peak is told.
#include "base/log.h"
#include "session/local_machine.h"
#include "train/listeners.h"

namespace windlass {
namespace {

constexpr double kFarTooLong = 3;  // plan to step: far beyond the error of plans with true rates

class MachineDoubt : public StepListener {
  public:
    explicit MachineDoubt(LoopState& loop) : loop_(loop) {}

    void measured(StepMetrics& metrics) override {
        const bool follows = follows_ && loop_.settled_step != metrics.step - 1;
        const bool beats_plan = follows && metrics.predicted_seconds > kFarTooLong * metrics.step_seconds;
        const bool beats_rates = metrics.mfu > 1 || beats_plan;
        follows_ = !metrics.skipped && loop_.session.planned.plan.writeback_steps == 1;
        if (doubted_ || beats_rates) metrics.mfu = 0;
        if (doubted_ || !beats_rates) return;
        doubted_ = true;
        loop_.log.clear_bar();
        log_info(
            "this step was faster than the cached machine profile allows, which was measured under load; the next "
            "command measures it again");
        forget_local_machine(loop_.files, loop_.session.config, loop_.session.threads);
    }

  private:
    LoopState& loop_;
    bool doubted_ = false;  // the machine's kept rates
    bool follows_ = false;  // a step that left its update to the next, as plans take it
};

}  // namespace

std::unique_ptr<StepListener> make_machine_doubt(LoopState& loop) {
    return std::make_unique<MachineDoubt>(loop);
}

}  // namespace windlass
