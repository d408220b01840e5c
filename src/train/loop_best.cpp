// The part of the loop that compares evaluated steps.
#include "base/clock.h"
#include "base/log.h"
#include "state/checkpoint.h"
#include "train/loop.h"

namespace windlass {
namespace {

bool has_checkpoint(FileSystem& files, const std::string& run_folder, int64_t step) {
    return std::ranges::any_of(list_checkpoints(files, run_folder),
                               [&](const CheckpointPlace& place) { return place.step == step; });
}

}  // namespace

// A resumed run may have been killed between a step's commit and its evaluation: that one follows now. The best step
// may differ from before: by its metric, or because its checkpoint was deleted.
void TrainLoop::make_up_evaluation() {
    if (state_.progress.step == 0) return;
    const auto evaluate_again = [&] {
        StepMetrics metrics{.step = state_.progress.step, .time = wall_seconds()};
        evaluate(metrics);
        log_.make_up(metrics);
    };
    if (!session_.best) {
        if (evaluates_now() && log_.lacks_evaluation(state_.progress.step)) evaluate_again();
        return;
    }
    BestStep& best = state_.progress.best;
    if (!best.metric.empty() && best.metric != session_.best->metric) {
        log_warning("until step {} the best step was judged by {}; now it is judged by {}", state_.progress.step,
                    best.metric, session_.best->metric);
        best = {};
    }
    if (best.judged < state_.progress.step && evaluates_now()) {
        evaluate_again();
        if (is_new_best_) keep_best();
    }
    if (!session_.best->keeps || best.step == 0 || has_checkpoint(files_, folder_.path(), best.step)) return;
    log_warning("{} is gone, and with it the best step ({} {}); the search for the best step starts again",
                checkpoint_path(folder_.path(), best.step), best.metric, best.value);
    best.step = 0;
    best.value = 0;
}

void TrainLoop::take_in(const StepMetrics& metrics) {
    const bool by_score = session_.best->metric == metrics.eval_measure && metrics.eval_score.has_value();
    best_before_ = state_.progress.best;
    is_new_best_ =
        judge(*session_.best, metrics.step, by_score ? *metrics.eval_score : *metrics.eval_loss, state_.progress.best);
}

// A step that cannot be saved is not the best: there would be nothing left of it.
void TrainLoop::keep_best() {
    is_new_best_ = false;
    BestStep& best = state_.progress.best;
    log_.clear_bar();
    log_info("step {} is the best so far: {} {:.4f}", best.step, best.metric, best.value);
    if (!session_.best->keeps || save()) return;
    best.step = best_before_.step;
    best.value = best_before_.value;
}

bool TrainLoop::stops_early() const {
    return session_.best && gives_up(*session_.best, state_.progress.best);
}

void TrainLoop::tell_early_stop() const {
    const BestStep& best = state_.progress.best;
    log_info(
        "stopped early, after step {} of {}: {} evaluations in a row were no better than the best one, {} {:.4f} of "
        "step {}",
        state_.progress.step, session_.total_steps(), best.misses, best.metric, best.value, best.step);
}

}  // namespace windlass
