// Ends the run after this step where the user made the file `stop` in its folder, as Ctrl-C does: for those who cannot
// send a signal.
#include "base/log.h"
#include "train/listeners.h"

namespace windlass {
namespace {

class StopRequest : public StepListener {
  public:
    explicit StopRequest(LoopState& loop) : loop_(loop) {}

    // The run before has ended, and this one was begun after that.
    void begin() override {
        if (loop_.folder.take_request(kStopRequestName))
            log_info("{} is of an earlier run; it is removed", loop_.folder.file(kStopRequestName));
    }
    void done(const StepDone& /*step*/) override {
        if (loop_.folder.take_request(kStopRequestName)) loop_.control.stop_after_step(ExitCode::interrupted);
    }

  private:
    LoopState& loop_;
};

}  // namespace

std::unique_ptr<StepListener> make_stop_request(LoopState& loop) {
    return std::make_unique<StopRequest>(loop);
}

}  // namespace windlass
