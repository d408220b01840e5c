#include "train/step_log.h"

#include <chrono>
#include <cmath>

#include "base/clock.h"
#include "base/full_disk.h"
#include "base/json.h"
#include "base/log.h"
#include "base/log_tap.h"
#include "base/units.h"
#include "train/run_events.h"

namespace windlass {

StepLog::StepLog(FileSystem& files, const Session& session, const std::string& run_folder, const RunProgress& now,
                 bool is_each_durable, EventStream& events)
    : session_(session),
      progress_(terminal_style(2), session.total_steps()),
      metrics_(files, run_folder, session.config.report_to, now.step, wall_seconds()),
      is_each_durable_(is_each_durable),
      events_(events) {
    const bool was_missing = metrics_.make_up(now.step, now.last_line);
    if (was_missing && events_.is_followed()) events_.emit(kStepEvent, Json::parse(now.last_line));
    if (is_each_durable_) metrics_.sync();
}

StepMetrics& StepLog::add(StepMetrics metrics, std::string bottleneck_text) {
    notes_.push_back({std::move(metrics), std::move(bottleneck_text)});
    return notes_.back().metrics;
}

void StepLog::make_up(const StepMetrics& evaluation) {
    metrics_.add_evaluation(evaluation);
    if (is_each_durable_) metrics_.sync();
    tell_evaluation(evaluation);
    events_.emit(kEvaluationEvent, evaluation_json(evaluation));
}

void StepLog::write_until(int64_t durable_step) {
    for (Note& note : notes_) {
        if (note.metrics.step > durable_step) break;
        if (!std::exchange(note.is_told, true)) tell(note);
    }
    const size_t waiting = notes_.size();
    while (!notes_.empty() && notes_.front().metrics.step <= durable_step && write(notes_.front().metrics))
        notes_.pop_front();
    if (is_each_durable_ && notes_.size() < waiting) metrics_.sync();
}

bool StepLog::write(const StepMetrics& metrics) {
    try {
        metrics_.write(metrics);
        is_full_ = false;
        if (events_.is_followed()) events_.emit(kStepEvent, metrics_json(metrics));
        if (metrics.eval_loss) events_.emit(kEvaluationEvent, evaluation_json(metrics));
        return true;
    } catch (const MachineError& error) {
        if (!is_disk_full(error)) throw;
        if (std::exchange(is_full_, true)) return false;
        progress_.clear();
        log_warning("{}; the lines of steps wait until there is room", error.what());
        return false;
    }
}

void StepLog::tell(const Note& note) {
    const StepMetrics& metrics = note.metrics;
    const bool is_last = metrics.step == session_.total_steps();
    if (metrics.step % session_.config.logging_steps == 0 || is_last || metrics.skipped) {
        progress_.clear();
        log_told("{}", step_line(metrics, session_.total_steps(), note.bottleneck_text));
    }
    if (metrics.eval_loss) tell_evaluation(metrics);
    progress_.step(metrics);
}

void StepLog::tell_evaluation(const StepMetrics& metrics) {
    progress_.clear();
    const std::string score =
        metrics.eval_score ? fmt::format("{} {:.4f}  ", metrics.eval_measure, *metrics.eval_score) : "";
    // Of a loss of tokens its exponential; of pairs by how much the preferred answers' rewards are greater.
    const std::string more = metrics.eval_rewards ? fmt::format("margin {:.4f}", metrics.eval_rewards->margin)
                                                  : fmt::format("perplexity {:.3f}", std::exp(*metrics.eval_loss));
    log_told("evaluation after step {}: loss {:.4f}  {}  {}{} rows in {}", metrics.step, *metrics.eval_loss, more,
             score, session_.data->eval_count(), format_seconds(metrics.eval_seconds));
}

}  // namespace windlass
