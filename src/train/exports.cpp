// Exports a model folder every export_steps steps, or on request (persist/exporter.h).
#include "persist/exporter.h"
#include "train/listeners.h"

namespace windlass {
namespace {

class Exports : public StepListener {
  public:
    explicit Exports(LoopState& loop) : loop_(loop), exporter_(loop.files, loop.session, loop.folder, loop.engine) {}

    void before_step() override { exporter_.before_step(); }
    void done(const StepDone& /*step*/) override {
        if (!exporter_.is_due(loop_.state.progress.step)) return;
        loop_.settle();
        exporter_.begin(loop_.state.progress.step);
    }
    void end() override { exporter_.finish(); }

  private:
    LoopState& loop_;
    Exporter exporter_;
};

}  // namespace

std::unique_ptr<StepListener> make_exports(LoopState& loop) {
    return std::make_unique<Exports>(loop);
}

}  // namespace windlass
