#include "train/evaluator.h"

#include <limits>

#include "base/activity.h"
#include "base/clock.h"
#include "infer/evaluate.h"
#include "infer/task_evaluate.h"

namespace windlass {

PairRewards rewards_of(const PreferenceResult& result) {
    return {result.chosen_reward(), result.rejected_reward(), result.margin(), result.accuracy()};
}

StepEvaluator::StepEvaluator(LoopState& loop, BestKeeper& best)
    : loop_(loop), best_(best), loss_(std::numeric_limits<double>::quiet_NaN()) {}

bool StepEvaluator::is_due_now() const {
    if (!loop_.session.has_eval()) return false;
    return is_due(loop_.session.config.eval_steps, loop_.state.progress.step) || loop_.is_last();
}

void StepEvaluator::begin() {
    const int64_t step = loop_.state.progress.step;
    if (step == 0) return;
    best_.forget_other_metric();
    const bool lacks = loop_.session.best ? best_.lacks_judgement() : loop_.log.lacks_evaluation(step);
    if (lacks && is_due_now()) {
        StepMetrics metrics{.step = step, .time = wall_seconds()};
        evaluate(metrics);
        loop_.log.make_up(metrics);
        best_.keep();
    }
    best_.forget_if_gone();
}

void StepEvaluator::told(StepMetrics& metrics) {
    if (is_due_now()) evaluate(metrics);
}

void StepEvaluator::evaluate(StepMetrics& metrics) {
    loop_.engine.flush();
    const Session& session = loop_.session;
    Activity evaluating("evaluating", session.data->eval_count(), {.has_own_line = true});
    if (const TaskSet* task = session.data->eval_task(); task == nullptr && session.preference) {
        evaluate_preferences(metrics);
    } else {
        EvalResult result;
        if (task != nullptr) {
            const TaskEvaluation evaluation = evaluate_task(loop_.engine, *task);
            result = evaluation.loss;
            metrics.eval_measure = evaluation.measure;
            score_ = metrics.eval_score = evaluation.value;
        } else {
            result = evaluate_rows(loop_.engine, session.data->eval_count(), [&](int64_t first, int64_t count) {
                evaluating.done_to(first);
                return session.data->read_eval(first, count);
            });
        }
        loss_ = result.loss();
        metrics.eval_loss = result.loss();
        metrics.eval_seconds = result.seconds;
    }
    best_.judge(metrics);
}

void StepEvaluator::evaluate_preferences(StepMetrics& metrics) {
    const Session& session = loop_.session;
    const PreferenceResult result = evaluate_pairs(
        loop_.engine, *session.preference, 2 * session.data->eval_count(),
        [&](int64_t first, int64_t count) { return session.data->read_eval(first / 2, count / 2); },
        loop_.references.evaluated);
    loss_ = result.loss();
    metrics.eval_loss = result.loss();
    metrics.eval_measure = "rewards/accuracies";
    score_ = metrics.eval_score = result.accuracy();
    metrics.eval_rewards = rewards_of(result);
    metrics.eval_seconds = result.seconds;
}

}  // namespace windlass
