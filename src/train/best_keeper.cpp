#include "train/best_keeper.h"

#include <algorithm>

#include "base/log.h"
#include "state/checkpoint.h"

namespace windlass {

void BestKeeper::forget_other_metric() {
    if (!loop_.session.best) return;
    BestStep& best = loop_.progress().best;
    const std::string& metric = loop_.session.best->metric;
    if (best.metric.empty() || best.metric == metric) return;
    log_warning("until step {} the best step was judged by {}; now it is judged by {}", loop_.progress().step,
                best.metric, metric);
    best = {};
}

bool BestKeeper::lacks_judgement() const {
    return loop_.state.progress.best.judged < loop_.state.progress.step;
}

void BestKeeper::judge(const StepMetrics& metrics) {
    if (!loop_.session.best) return;
    const BestRule& rule = *loop_.session.best;
    const bool by_score = rule.metric == metrics.eval_measure && metrics.eval_score.has_value();
    before_ = loop_.progress().best;
    is_new_ =
        windlass::judge(rule, metrics.step, by_score ? *metrics.eval_score : *metrics.eval_loss, loop_.progress().best);
}

// A step that cannot be saved is not the best: there would be nothing left of it.
void BestKeeper::keep() {
    if (!is_new_) return;
    is_new_ = false;
    BestStep& best = loop_.progress().best;
    loop_.log.clear_bar();
    log_info("step {} is the best so far: {} {:.4f}", best.step, best.metric, best.value);
    if (!loop_.session.best->keeps || saver_.save()) return;
    best.step = before_.step;
    best.value = before_.value;
}

void BestKeeper::forget_if_gone() {
    BestStep& best = loop_.progress().best;
    if (!loop_.session.best || !loop_.session.best->keeps || best.step == 0) return;
    const std::string& folder = loop_.folder.path();
    const std::vector<CheckpointPlace> kept = list_checkpoints(loop_.files, folder);
    if (std::ranges::count(kept, best.step, &CheckpointPlace::step) > 0) return;
    log_warning("{} is gone, and with it the best step ({} {}); the search for the best step starts again",
                checkpoint_path(folder, best.step), best.metric, best.value);
    best.step = 0;
    best.value = 0;
}

bool BestKeeper::ends_run() const {
    return loop_.session.best && gives_up(*loop_.session.best, loop_.state.progress.best);
}

void BestKeeper::tell_early_stop() const {
    const BestStep& best = loop_.state.progress.best;
    log_info(
        "stopped early, after step {} of {}: {} evaluations in a row were no better than the best one, {} {:.4f} of "
        "step {}",
        loop_.state.progress.step, loop_.session.total_steps(), best.misses, best.metric, best.value, best.step);
}

}  // namespace windlass
