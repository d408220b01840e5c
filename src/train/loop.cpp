#include "train/loop.h"

#include <limits>

#include "base/activity.h"
#include "base/clock.h"
#include "base/full_disk.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "infer/preference.h"
#include "infer/task_evaluate.h"
#include "schedule/lower.h"
#include "schedule/simulate.h"
#include "session/budget.h"
#include "session/local_machine.h"
#include "session/next_batch.h"
#include "session/refresh.h"
#include "state/checkpoint.h"
#include "train/final_folder.h"
#include "train/loss_plot.h"
#include "train/next_commands.h"
#include "train/refresh_report.h"

namespace windlass {
namespace {

constexpr double kFarTooLong = 3;    // plan to step: far beyond the error of plans with true rates
constexpr double kPaceWeight = 0.1;  // of a new step in the mean that the remaining time is told from

constexpr ActivityTraits kOfAStep = {.counts_engine_work = true, .has_own_line = true};

PairRewards rewards_of(const PreferenceResult& result) {
    return {result.chosen_reward(), result.rejected_reward(), result.margin(), result.accuracy()};
}

}  // namespace

TrainLoop::TrainLoop(FileSystem& files, Session& session, RunFolder& folder, Engine& engine, RunState state)
    : files_(files),
      session_(session),
      folder_(folder),
      engine_(engine),
      state_(std::move(state)),
      signals_(engine),
      log_(files, session, folder.path(), state_.progress),
      exporter_(files, session, folder, engine),
      loss_(state_.progress.last_loss),
      eval_loss_(std::numeric_limits<double>::quiet_NaN()),
      first_step_(state_.progress.step) {
    if (!session.samples.prompts.empty())
        samples_.emplace(files, folder.file(kSamplesName), first_step_, std::ssize(session.samples.prompts));
    for (const int64_t length : session.numerics().sequence_lengths)
        predicted_[length] = simulate(schedule_of(length), session.machine).seconds;
}

TrainResult TrainLoop::run() {
    const int64_t total = session_.total_steps();
    try {
        make_up_evaluation();
        make_up_samples();
        while (state_.progress.step < total && !stops_early() && !signals_.wants_stop()) step();
        settle();
        stop();
    } catch (const Error& error) {
        log_.clear_bar();
        if (error.code() != ExitCode::interrupted) throw;
        log_.write_until(durable_step());
        log_warning("stopped in step {}, which was not applied", durable_step() + 1);
    }
    log_.clear_bar();
    if (stops_early()) tell_early_stop();
    const int64_t done = durable_step();
    TrainResult result{.code = ExitCode::ok, .steps = done, .total_steps = total, .loss = loss_};
    if (done < total && !stops_early()) {
        result.code = signals_.exit_code();
        result.resume = say_how_to_continue(done);
    } else {
        finish();
        result.final_folder = folder_.file("final");
    }
    result.eval_loss = eval_loss_;
    result.eval_score = eval_score_;
    return result;
}

// A step that a log holds is durable, even where its update is not done yet.
int64_t TrainLoop::durable_step() const {
    return trajectory_ != nullptr ? trajectory_->last_step() : engine_.durable_step();
}

// Everything that was done is durable, and said.
void TrainLoop::settle() {
    follows_ = false;
    engine_.flush();
    log_.write_until(durable_step());
}

const Schedule& TrainLoop::schedule_of(int64_t sequence_length) const {
    const Schedule* schedule = engine_.setup().schedules.find(schedule_name({.sequence_length = sequence_length}));
    WINDLASS_CHECK(schedule != nullptr, "there is no training schedule for rows of {} tokens", sequence_length);
    return *schedule;
}

// Its rows are those of the steps that follow, with targets as they are in one micro-batch.
void TrainLoop::refresh() {
    exporter_.before_step();
    const StepBatch batch = refresh_batch(session_, state_.progress.position);
    const int64_t step = state_.progress.step + 1;
    const int64_t targets = std::max<int64_t>(1, batch.target_tokens());
    const Schedule& schedule = *engine_.setup().schedules.find(
        schedule_name({.kind = ScheduleRequest::Kind::refresh, .sequence_length = batch.sequence_length()}));
    const Activity refreshing(fmt::format("refresh before step {}", step), std::ssize(schedule.tasks), kOfAStep);
    const StepReport report = engine_.refresh(
        schedule,
        {.micro = batch.micro(),
         .params = {
             .seed = state_.identity.seed, .step = step, .head = {.loss_scale = 1.0 / static_cast<double>(targets)}}});
    log_.write_until(durable_step());
    log_.clear_bar();
    // Written before the refresh counts: a run that is killed between the two does both again.
    report_refresh(files_, folder_.file(fmt::format("refresh-{}.json", step)), step, session_.model, report);
    state_.progress.refreshed_before = step;
    engine_.commit_refresh(step - 1, run_state_text(state_));
}

void TrainLoop::step() {
    if (refresh_is_due(session_.refresh, state_.progress)) refresh();
    const int64_t start = now_ns();
    DataPosition position = state_.progress.position;
    const StepBatch batch = next_batch(session_, position);
    const Schedule& schedule = schedule_of(batch.sequence_length());
    const StepInput input{
        .micro = batch.micro(),
        .params = {.seed = state_.identity.seed,
                   .step = state_.progress.step + 1,
                   .learning_rate = learning_rate(session_.identity.schedule, state_.progress.step + 1),
                   .head = {.loss_scale = 1.0 / static_cast<double>(batch.loss_count())}},
        .objective = batch.objective(),
        .token_losses = session_.preference.has_value()};
    exporter_.before_step();
    const StepReport report = [&] {
        const Activity step(fmt::format("step {}", state_.progress.step + 1), std::ssize(schedule.tasks), kOfAStep);
        return engine_.train_step(schedule, input);
    }();
    if (report.spoiled && !session_.planned.plan.store) stop_without_state(batch, report);
    log_.write_until(durable_step());
    advance(batch, position, report);
    state_.progress.last_line = metrics_line(measure(batch, schedule, report, seconds_since(start)));
    if (trajectory_ != nullptr) trajectory_->add(report, state_);
    engine_.commit(state_.progress.step, run_state_text(state_), report);
    if (trace_ != nullptr) trace_->note(state_.progress.step, engine_.setup(), schedule, report);
    finish_step(batch, schedule, report, seconds_since(start));
    watch(batch, report);
    if (is_new_best_) keep_best();
    if (saves_now() && saved_step_ != state_.progress.step) save();
    if (samples_now()) sample();
    if (exporter_.is_due(state_.progress.step)) {
        settle();
        exporter_.begin(state_.progress.step);
    }
}

void TrainLoop::advance(const StepBatch& batch, const DataPosition& position, const StepReport& report) {
    const double loss = report.loss_sum / static_cast<double>(batch.loss_count());
    ++state_.progress.step;
    state_.progress.position = position;
    state_.progress.tokens_total += batch.tokens();
    if (report.applied) {
        state_.progress.last_loss = loss_ = loss;
        ++state_.progress.applied_steps;
        if (report.clip_scale < 1) ++state_.progress.clipped_steps;
    }
    const std::optional<double> threshold = session_.config.loss_watchdog_threshold;
    const bool is_bad = !report.applied || (threshold && loss > *threshold);
    state_.progress.bad_steps = is_bad ? state_.progress.bad_steps + 1 : 0;
}

StepMetrics TrainLoop::measure(const StepBatch& batch, const Schedule& schedule, const StepReport& report,
                               double seconds) const {
    const Demand demand = in_rounds(total_demand(schedule), report.rounds);
    const double peak = session_.machine.gemm_flops(session_.numerics().compute);
    StepMetrics metrics{.step = state_.progress.step, .time = wall_seconds(), .step_seconds = seconds};
    metrics.epoch = session_.data->training().passes(state_.progress.position);
    metrics.loss = report.loss_sum / static_cast<double>(batch.loss_count());
    metrics.lr = learning_rate(session_.identity.schedule, state_.progress.step);
    metrics.grad_norm = report.grad_norm;
    metrics.clipped = report.clip_scale < 1;
    if (!report.token_losses.empty()) {
        const PreferenceResult pairs = step_rewards(report.token_losses, batch.micro());
        if (pairs.pairs > 0) metrics.rewards = rewards_of(pairs);
    }
    metrics.skipped = !report.applied;
    metrics.redone = report.redone;
    metrics.tokens = batch.tokens();
    metrics.target_tokens = batch.target_tokens();
    metrics.tokens_total = state_.progress.tokens_total;
    metrics.predicted_seconds = predicted_.at(batch.sequence_length()) * static_cast<double>(report.rounds) +
                                (report.redone ? session_.planned.redo_seconds : 0);
    if (session_.rounds_most > 1) metrics.rounds = report.rounds;
    metrics.mfu = peak > 0 ? demand.model_flops / seconds / peak : 0;
    metrics.eta_seconds = mean_seconds_ * static_cast<double>(session_.total_steps() - state_.progress.step);
    metrics.ram_bytes = private_memory_peak();
    metrics.disk_read_bytes = demand.disk_read_bytes;
    metrics.disk_write_bytes = demand.disk_write_bytes;
    return metrics;
}

void TrainLoop::finish_step(const StepBatch& batch, const Schedule& schedule, const StepReport& report,
                            double seconds) {
    mean_seconds_ = mean_seconds_ == 0 ? seconds : mean_seconds_ + kPaceWeight * (seconds - mean_seconds_);
    StepMetrics measured = measure(batch, schedule, report, seconds);
    doubt_machine(measured);
    StepMetrics& metrics = log_.add(std::move(measured), bottleneck(report.busy_seconds, seconds));
    if (evaluates_now()) evaluate(metrics);
    log_.write_until(durable_step());
}

// Nothing multiplies faster than the machine can, and true rates make no plan several times too long: such a step shows
// that the machine was busy when its rates were measured. From then on no share of its peak is told.
void TrainLoop::doubt_machine(StepMetrics& metrics) {
    const bool beats_plan = follows_ && metrics.predicted_seconds > kFarTooLong * metrics.step_seconds;
    const bool beats_rates = metrics.mfu > 1 || beats_plan;
    follows_ = !metrics.skipped && session_.planned.plan.writeback_steps == 1;
    if (doubted_ || beats_rates) metrics.mfu = 0;
    if (doubted_ || !beats_rates) return;
    doubted_ = true;
    log_.clear_bar();
    log_info(
        "this step was faster than the cached machine profile allows, which was measured under load; the next command "
        "measures it again");
    forget_local_machine(files_, session_.config, session_.threads);
}

// Stops the run when losses were not finite, or above the watchdog's threshold, too often in a row.
void TrainLoop::watch(const StepBatch& batch, const StepReport& report) {
    if (!report.applied) record_bad_batch(batch, report);
    if (state_.progress.bad_steps < session_.config.loss_watchdog_patience) return;
    settle();
    log_.clear_bar();
    throw UserError(ExitCode::diverged, fmt::format("step {}", state_.progress.step),
                    "{} steps in a row were not finite or above loss_watchdog_threshold (loss {}, gradient norm {})",
                    state_.progress.bad_steps, report.loss_sum / static_cast<double>(batch.loss_count()),
                    report.grad_norm)
        .hint(fmt::format("a lower learning_rate; what the steps computed on is in {}",
                          folder_.file("bad-batch-*.json")));
}

// Weights in memory were updated before a gradient was seen not to be finite.
void TrainLoop::stop_without_state(const StepBatch& batch, const StepReport& report) {
    ++state_.progress.step;  // the one that failed: its batch is told by it
    record_bad_batch(batch, report);
    log_.clear_bar();
    const std::vector<CheckpointPlace> saved = list_checkpoints(files_, folder_.path());
    const std::string last = saved.empty() ? "nothing was saved before it"
                                           : fmt::format("the last state before it is {}",
                                                         folder_.file(fmt::format("checkpoint-{}", saved.back().step)));
    throw UserError(ExitCode::diverged, fmt::format("step {}", state_.progress.step),
                    "a gradient was not finite (loss {}, gradient norm {}) when {} had updated weights in memory; {}",
                    report.loss_sum / static_cast<double>(batch.loss_count()), report.grad_norm, session_.recipe.name,
                    last)
        .hint(fmt::format("{} with a lower learning_rate or max_grad_norm: 1, which finds the norm beforehand; with "
                          "ssd_dir and policy three_tier such a step is only skipped",
                          saved.empty() ? "begin again (--overwrite)" : "continue from there (--resume)"));
}

void TrainLoop::record_bad_batch(const StepBatch& batch, const StepReport& report) const {
    Json json = {{"step", state_.progress.step},
                 {"loss", fmt::format("{}", report.loss_sum)},
                 {"grad_norm", fmt::format("{}", report.grad_norm)},
                 {"row_length", batch.sequence_length()}};
    for (const Batch& micro : batch.micro()) {
        const auto list = [&](const int32_t* numbers) {
            return std::vector<int32_t>(numbers, numbers + micro.count());
        };
        json["micro"].push_back({{"tokens", list(micro.tokens)},
                                 {"positions", list(micro.positions)},
                                 {"doc_start", list(micro.doc_start)},
                                 {"targets", list(micro.targets)}});
    }
    const std::string path = folder_.file(fmt::format("bad-batch-{}.json", state_.progress.step));
    const bool is_kept = write_unless_full([&] { write_text_atomic(files_, path, json.dump() + "\n"); });
    log_warning("step {} was not applied: loss {}, gradient norm {}{}", state_.progress.step, report.loss_sum,
                report.grad_norm, is_kept ? "; its batch is in " + path : "");
}

bool TrainLoop::evaluates_now() const {
    if (!session_.has_eval()) return false;
    return is_due(session_.config.eval_steps, state_.progress.step) || state_.progress.step == session_.total_steps();
}

void TrainLoop::evaluate(StepMetrics& metrics) {
    engine_.flush();
    EvalResult result;
    Activity evaluating("evaluating", session_.data->eval_count(), {.has_own_line = true});
    if (const TaskSet* task = session_.data->eval_task(); task != nullptr) {
        const TaskEvaluation evaluation = evaluate_task(engine_, *task);
        result = evaluation.loss;
        metrics.eval_measure = evaluation.measure;
        eval_score_ = metrics.eval_score = evaluation.value;
    } else if (session_.preference) {
        evaluate_preferences(metrics);
        if (session_.best) take_in(metrics);
        return;
    } else {
        result = evaluate_rows(engine_, session_.data->eval_count(), [&](int64_t first, int64_t count) {
            evaluating.done_to(first);
            return session_.data->read_eval(first, count);
        });
    }
    eval_loss_ = result.loss();
    metrics.eval_loss = result.loss();
    metrics.eval_seconds = result.seconds;
    if (session_.best) take_in(metrics);
}

void TrainLoop::evaluate_preferences(StepMetrics& metrics) {
    const PreferenceResult result = evaluate_pairs(
        engine_, *session_.preference, 2 * session_.data->eval_count(),
        [&](int64_t first, int64_t count) { return session_.data->read_eval(first / 2, count / 2); },
        session_.eval_references);
    eval_loss_ = result.loss();
    metrics.eval_loss = result.loss();
    metrics.eval_measure = "rewards/accuracies";
    eval_score_ = metrics.eval_score = result.accuracy();
    metrics.eval_rewards = rewards_of(result);
    metrics.eval_seconds = result.seconds;
}

}  // namespace windlass
