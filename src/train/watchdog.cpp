// Stops the run when losses were not finite, or above the watchdog's threshold, too often in a row.
#include "train/watchdog.h"

#include "base/full_disk.h"
#include "base/json.h"
#include "base/log.h"
#include "state/checkpoint.h"
#include "train/listeners.h"

namespace windlass {
namespace {

void record_bad_batch(const LoopState& loop, const StepDone& step) {
    const int64_t number = loop.state.progress.step;
    Json json = {{"step", number},
                 {"loss", fmt::format("{}", step.report.loss_sum)},
                 {"grad_norm", fmt::format("{}", step.report.grad_norm)},
                 {"row_length", step.batch.sequence_length()}};
    for (const Batch& micro : step.batch.micro()) {
        const auto list = [&](const int32_t* numbers) {
            return std::vector<int32_t>(numbers, numbers + micro.count());
        };
        json["micro"].push_back({{"tokens", list(micro.tokens)},
                                 {"positions", list(micro.positions)},
                                 {"doc_start", list(micro.doc_start)},
                                 {"targets", list(micro.targets)}});
    }
    const std::string path = loop.folder.file(fmt::format("bad-batch-{}.json", number));
    const bool is_kept = write_unless_full([&] { write_text_atomic(loop.files, path, json.dump() + "\n"); });
    log_warning("step {} was not applied: loss {}, gradient norm {}{}", number, step.report.loss_sum,
                step.report.grad_norm, is_kept ? "; its batch is in " + path : "");
}

class Watchdog : public StepListener {
  public:
    explicit Watchdog(LoopState& loop) : loop_(loop) {}

    void done(const StepDone& step) override {
        if (!step.report.applied) record_bad_batch(loop_, step);
        const RunProgress& progress = loop_.state.progress;
        if (progress.bad_steps < loop_.session.config.loss_watchdog_patience) return;
        loop_.settle();
        loop_.log.clear_bar();
        throw UserError(
            ExitCode::diverged, fmt::format("step {}", progress.step),
            "{} steps in a row were not finite or above loss_watchdog_threshold (loss {}, gradient norm {})",
            progress.bad_steps, step.loss(), step.report.grad_norm)
            .hint(fmt::format("a lower learning_rate; what the steps computed on is in {}",
                              loop_.folder.file("bad-batch-*.json")));
    }

  private:
    LoopState& loop_;
};

}  // namespace

void stop_without_state(LoopState& loop, const StepDone& step) {
    ++loop.progress().step;  // the one that failed: its batch is told by it
    record_bad_batch(loop, step);
    loop.log.clear_bar();
    const std::vector<CheckpointPlace> saved = list_checkpoints(loop.files, loop.folder.path());
    const std::string last = saved.empty() ? "nothing was saved before it"
                                           : fmt::format("the last state before it is {}",
                                                         checkpoint_path(loop.folder.path(), saved.back().step));
    throw UserError(ExitCode::diverged, fmt::format("step {}", loop.state.progress.step),
                    "a gradient was not finite (loss {}, gradient norm {}) when {} had updated weights in memory; {}",
                    step.loss(), step.report.grad_norm, loop.session.recipe.name, last)
        .hint(fmt::format("{} with a lower learning_rate or max_grad_norm: 1, which finds the norm beforehand; with "
                          "ssd_dir and policy three_tier such a step is only skipped",
                          saved.empty() ? "begin again (--overwrite)" : "continue from there (--resume)"));
}

std::unique_ptr<StepListener> make_watchdog(LoopState& loop) {
    return std::make_unique<Watchdog>(loop);
}

}  // namespace windlass
