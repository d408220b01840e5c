// Exports a model folder every export_steps steps, or on request (persist/exporter.h).
#include "persist/exporter.h"
#include "train/listeners.h"

namespace windlass {
namespace {

class Exports : public StepListener {
  public:
    explicit Exports(LoopState& loop) : loop_(loop), exporter_(loop.files, loop.session, loop.folder, loop.engine) {}

    // A kill may have come between a step or a request and its export.
    void begin() override {
        const int64_t step = loop_.state.progress.step;
        if (step > 0 && exporter_.is_missing(step)) begin_export(step);
    }
    void before_step() override { exporter_.before_step(); }
    void done(const StepDone& /*step*/) override { export_after(loop_.state.progress.step); }
    void end() override { exporter_.finish(); }

  private:
    void export_after(int64_t step) {
        if (exporter_.is_due(step)) begin_export(step);
    }
    void begin_export(int64_t step) {
        loop_.settle();
        exporter_.begin(step, loop_.state);
    }

    LoopState& loop_;
    Exporter exporter_;
};

}  // namespace

std::unique_ptr<StepListener> make_exports(LoopState& loop) {
    return std::make_unique<Exports>(loop);
}

}  // namespace windlass
