#include "train/loop.h"

#include "base/activity.h"
#include "base/clock.h"
#include "base/log.h"
#include "schedule/lower.h"
#include "schedule/simulate.h"
#include "session/budget.h"
#include "session/next_batch.h"
#include "session/phase.h"
#include "train/listeners.h"
#include "train/phase_report.h"
#include "train/watchdog.h"

namespace windlass {
namespace {

constexpr double kPaceWeight = 0.1;  // of a new step in the mean that the remaining time is told from

constexpr ActivityTraits kOfAStep = {.counts_engine_work = true, .has_own_line = true};

}  // namespace

void LoopState::settle() {
    settled_step = state.progress.step;
    engine.flush();
    log.write_until(durable_step());
}

TrainLoop::TrainLoop(FileSystem& files, const Session& session, References references, RunFolder& folder,
                     Engine& engine, RunControl& control, EventStream& events, RunState state,
                     TrajectoryLog* trajectory)
    : now_{.files = files,
           .session = session,
           .references = std::move(references),
           .folder = folder,
           .engine = engine,
           .state = std::move(state),
           .control = control,
           .events = events,
           .running = ControlledRun(control, engine),
           .log = StepLog(files, session, folder.path(), now_.state.progress,
                          trajectory != nullptr || session.planned.plan.store, events),
           .trajectory = trajectory,
           .first_step = now_.state.progress.step},
      loss_(now_.state.progress.last_loss),
      saver_(now_),
      best_(now_, saver_),
      evaluator_(now_, best_) {
    const auto make = [&](std::span<const MakeListener> list) {
        for (const MakeListener make : list) {
            std::unique_ptr<StepListener> made = make(now_);
            if (made == nullptr) continue;
            listeners_.push_back(made.get());
            others_.push_back(std::move(made));
        }
    };
    make(kToldFirst);
    listeners_.insert(listeners_.end(), {&evaluator_, &best_, &saver_});
    make(kToldLast);
    for (const int64_t length : session.numerics().sequence_lengths)
        predicted_[length] = simulate(schedule_of(length), session.machine).seconds;
}

TrainResult TrainLoop::run() {
    const int64_t total = now_.session.total_steps();
    try {
        tell([](StepListener& each) { each.begin(); });
        while (now_.state.progress.step < total && !ends_early() && !now_.control.wants_stop()) step();
        now_.settle();
        stop();
    } catch (const Error& error) {
        now_.log.clear_bar();
        if (error.code() != ExitCode::interrupted) throw;
        now_.log.write_until(now_.durable_step());
        log_warning("stopped in step {}, which was not applied", now_.durable_step() + 1);
    }
    now_.log.clear_bar();
    if (ends_early()) best_.tell_early_stop();
    const int64_t done = now_.durable_step();
    TrainResult result{.code = ExitCode::ok, .steps = done, .total_steps = total, .loss = loss_};
    if (done < total && !ends_early()) {
        result.code = now_.control.exit_code();
        result.resume = say_how_to_continue(done);
    } else {
        finish();
        result.final_folder = now_.folder.file("final");
    }
    result.eval_loss = evaluator_.loss();
    result.eval_score = evaluator_.score();
    return result;
}

bool TrainLoop::ends_early() const {
    return std::ranges::any_of(listeners_, [](const StepListener* each) { return each->ends_run(); });
}

const Schedule& TrainLoop::schedule_of(int64_t sequence_length) const {
    const Schedule* schedule = now_.engine.setup().schedules.find(schedule_name({.sequence_length = sequence_length}));
    WINDLASS_CHECK(schedule != nullptr, "there is no training schedule for rows of {} tokens", sequence_length);
    return *schedule;
}

// Its rows are those of the steps that follow, with targets as they are in one micro-batch.
void TrainLoop::run_phase() {
    tell([](StepListener& each) { each.before_step(); });
    const Phase& phase = *now_.session.phase.phase;
    const StepBatch batch = phase_batch(now_.session, now_.state.progress.position);
    const int64_t step = now_.state.progress.step + 1;
    const int64_t targets = std::max<int64_t>(1, batch.target_tokens());
    const Schedule& schedule = *now_.engine.setup().schedules.find(schedule_name(
        {.kind = ScheduleRequest::Kind::phase, .sequence_length = batch.sequence_length(), .phase = &phase}));
    const Activity running(fmt::format("{} before step {}", phase.name, step), std::ssize(schedule.tasks), kOfAStep);
    const StepReport report =
        now_.engine.run_phase(schedule, {.micro = batch.micro(),
                                         .params = {.seed = now_.state.identity.seed,
                                                    .step = step,
                                                    .head = {.loss_scale = 1.0 / static_cast<double>(targets)}}});
    now_.log.write_until(now_.durable_step());
    now_.log.clear_bar();
    // Written before the phase counts: a run that is killed between the two does both again.
    report_phase(now_.files, now_.folder.file(fmt::format("{}-{}.json", phase.name, step)), step, phase,
                 now_.session.model, report);
    now_.state.progress.phase_before = step;
    now_.engine.commit_phase(step - 1, run_state_text(now_.state));
}

void TrainLoop::step() {
    const Session& session = now_.session;
    if (phase_is_due(session.phase, now_.state.progress)) run_phase();
    const int64_t start = now_ns(), number = now_.state.progress.step + 1;
    DataPosition position = now_.state.progress.position;
    const StepBatch batch = next_batch(session, now_.references, position);
    const Schedule& schedule = schedule_of(batch.sequence_length());
    const StepInput input{.micro = batch.micro(),
                          .params = {.seed = now_.state.identity.seed,
                                     .step = number,
                                     .learning_rate = learning_rate(session.identity.schedule, number),
                                     .head = {.loss_scale = 1.0 / static_cast<double>(batch.loss_count())}},
                          .objective = batch.objective(),
                          .token_losses = session.preference.has_value()};
    tell([](StepListener& each) { each.before_step(); });
    const StepReport report = [&] {
        const Activity step(fmt::format("step {}", number), std::ssize(schedule.tasks), kOfAStep);
        return now_.engine.train_step(schedule, input);
    }();
    const StepDone done{number, now_.engine.setup(), batch, schedule, report};
    if (report.spoiled && !session.planned.plan.store) stop_without_state(now_, done);
    now_.log.write_until(now_.durable_step());
    advance(done, position);
    now_.state.progress.last_line = metrics_line(measure(done, seconds_since(start)));
    if (now_.trajectory != nullptr) now_.trajectory->add(report, now_.state);
    now_.engine.commit(number, run_state_text(now_.state), report);
    tell([&](StepListener& each) { each.committed(done); });
    tell_step(done, seconds_since(start));
    tell([&](StepListener& each) { each.done(done); });
}

void TrainLoop::advance(const StepDone& done, const DataPosition& position) {
    const StepReport& report = done.report;
    const double loss = done.loss();
    ++now_.state.progress.step;
    now_.state.progress.position = position;
    now_.state.progress.tokens_total += done.batch.tokens();
    if (report.applied) {
        now_.state.progress.last_loss = loss_ = loss;
        ++now_.state.progress.applied_steps;
        if (report.clip_scale < 1) ++now_.state.progress.clipped_steps;
    }
    const std::optional<double> threshold = now_.session.config.loss_watchdog_threshold;
    const bool is_bad = !report.applied || (threshold && loss > *threshold);
    now_.state.progress.bad_steps = is_bad ? now_.state.progress.bad_steps + 1 : 0;
}

StepMetrics TrainLoop::measure(const StepDone& done, double seconds) const {
    const auto& [number, setup, batch, schedule, report] = done;
    const Demand demand = in_rounds(total_demand(schedule), report.rounds);
    const double peak = now_.session.machine.gemm_flops(now_.session.numerics().compute);
    StepMetrics metrics{.step = now_.state.progress.step, .time = wall_seconds(), .step_seconds = seconds};
    metrics.epoch = now_.session.data->training().passes(now_.state.progress.position);
    metrics.loss = done.loss();
    metrics.lr = learning_rate(now_.session.identity.schedule, now_.state.progress.step);
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
    metrics.tokens_total = now_.state.progress.tokens_total;
    metrics.predicted_seconds = predicted_.at(batch.sequence_length()) * static_cast<double>(report.rounds) +
                                (report.redone ? now_.session.planned.redo_seconds : 0);
    if (now_.session.rounds_most > 1) metrics.rounds = report.rounds;
    metrics.mfu = peak > 0 ? demand.model_flops / seconds / peak : 0;
    metrics.eta_seconds = mean_seconds_ * static_cast<double>(now_.session.total_steps() - now_.state.progress.step);
    metrics.ram_bytes = private_memory_peak();
    metrics.disk_read_bytes = demand.disk_read_bytes;
    metrics.disk_write_bytes = demand.disk_write_bytes;
    return metrics;
}

void TrainLoop::tell_step(const StepDone& done, double seconds) {
    mean_seconds_ = mean_seconds_ == 0 ? seconds : mean_seconds_ + kPaceWeight * (seconds - mean_seconds_);
    StepMetrics measured = measure(done, seconds);
    tell([&](StepListener& each) { each.measured(measured); });
    StepMetrics& metrics = now_.log.add(std::move(measured), bottleneck(done.report.busy_seconds, seconds));
    tell([&](StepListener& each) { each.told(metrics); });
    now_.log.write_until(now_.durable_step());
}

}  // namespace windlass
