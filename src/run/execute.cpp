#include "run/execute.h"

#include <algorithm>
#include <exception>

#include "base/clock.h"
#include "base/index.h"
#include "run/batch_input.h"
#include "run/param_task.h"
#include "run/run_task.h"
#include "run/step_outputs.h"
#include "run/task_lanes.h"

namespace windlass {
namespace {

// Whether a step may still be dropped where its state has no other version: until something changes it. From then on it
// is finished. Which of the two comes first is decided once for all lanes.
class PointOfNoReturn {
  public:
    explicit PointOfNoReturn(bool changes) : changes_(changes ? 1 : 0) {}
    // Before a change. False: the step was dropped.
    bool begin_change() {
        int changes = changes_.load();
        while (changes != kDropped && !changes_.compare_exchange_weak(changes, changes + 1)) {
        }
        return changes != kDropped;
    }
    void end_change() { changes_.fetch_sub(1); }
    // False: something has changed.
    bool drop() {
        int changes = 0;
        return changes_.compare_exchange_strong(changes, kDropped) || changes == kDropped;
    }

  private:
    static constexpr int kDropped = -1;
    std::atomic<int> changes_;  // begun and not whole
};

class Execution {
  public:
    Execution(const Schedule& schedule, ExecuteContext& context, const StepInput& input)
        : schedule_(schedule),
          context_(context),
          set_(context.setup.schedules),
          input_(input),
          outputs_(set_, schedule, context.arenas),
          params_(input.params),
          point_of_no_return_(context.holds()),
          lanes_({.set = set_,
                  .schedule = schedule,
                  .arenas = context.arenas,
                  .streams = context.streams,
                  .movers = context.movers},
                 lane_work()) {
        if (input.objective != nullptr) ask_head(input.objective, params_);
        if (context.setup.recipe.prepare != nullptr)
            context.setup.recipe.prepare(context.setup.method_options, params_);
        // A copy from before the decision: a guess takes the step for applied and not clipped.
        speculation_ = params_;
        if (context.deferred != nullptr) deferred_ = *context.deferred;
    }

    StepReport run() {
        const int64_t start = now_ns();
        lanes_.run(context_.workers);
        if (const std::exception_ptr failure = lanes_.failure()) std::rethrow_exception(failure);
        if (lanes_.stopped()) throw Error(ExitCode::interrupted, "interrupted; the step was not applied");
        // Evaluation decides nothing, so its losses are added up here.
        if (!reduced_ && !schedule_.gives_logits) report_.loss_sum = outputs_.sum(schedule_.outputs);
        report_.applied = params_.apply && !report_.spoiled;
        report_.params = params_;
        report_.seconds = seconds_since(start);
        report_.busy_seconds = lanes_.busy_seconds();
        report_.tasks = lanes_.take_times();
        return std::move(report_);
    }

  private:
    bool is_due(const Task& task) const {
        if (task.when == When::always) return true;
        // One schedule serves steps that write back and steps that do not: in the latter their moves are skipped.
        return context_.holds() && (context_.writes_back || task.when == When::deferred);
    }

    bool has_store() const { return context_.setup.plan.store; }
    // With a store the committed version stays whole, so a step may be dropped between any two tasks.
    bool stops() { return context_.stop.load() && (has_store() || point_of_no_return_.drop()); }
    // An update of state that has no store, once begun, is finished; so is one that was deferred, from the start.
    bool begins_change(const Task& task) {
        const bool changes = task.verb == Verb::param && schedule_.params[at(task.payload)].kernel->is_update;
        return has_store() || !changes || task.when != When::always || point_of_no_return_.begin_change();
    }

    // What tasks do, in lanes; some lanes run ahead.
    LaneWork lane_work() {
        return {.may_begin = [this](const Task& task) { return !stops() && begins_change(task); },
                .is_due = [this](const Task& task) { return is_due(task); },
                .launched = [this](const Task& task, const LaunchedMemory& memory) { perform(task, memory); },
                .on_host = [this](const Task& task, const TaskMemory& memory) { perform_on_host(task, memory); }};
    }

    void perform(const Task& task, const LaunchedMemory& memory) {
        switch (task.verb) {
            case Verb::run:
                return perform_run(schedule_.runs[at(task.payload)], memory);
            case Verb::move:
                return copy(task.lane, schedule_.moves[at(task.payload)], memory);
            case Verb::param:
                return perform_param(task, schedule_.params[at(task.payload)], memory);
            case Verb::host:
                break;
        }
        WINDLASS_CHECK(false, "what the host does is no work of a stream");
    }

    // What drives do, and what is decided: the step's losses and gradients are complete, and nothing that hangs on
    // their norm is issued before this returns.
    void perform_on_host(const Task& task, const TaskMemory& memory) {
        if (task.verb == Verb::move) return move_on_disk(schedule_.moves[at(task.payload)], memory);
        WINDLASS_CHECK(task.verb == Verb::host, "this is work of a stream");
        if (const std::optional<Stage> stage = schedule_.hosts[at(task.payload)].decides) return decide(*stage);
        context_.mark();
        if (context_.holds()) point_of_no_return_.end_change();
    }

    // Where the host has it.
    const Batch& batch_of(int probe_index, int micro) const {
        return context_.answers == nullptr ? input_.micro[at(micro)] : context_.answers->batch(probe_index, micro);
    }

    void perform_run(const RunTask& task, const LaunchedMemory& memory) {
        const Batch batch = batch_at(batch_of(task.probe_index, task.micro), memory.address(task.tokens));
        run_task(task, {.setup = context_.setup, .schedule = schedule_, .batch = batch, .head = params_.head}, memory);
    }

    void copy(int lane, const MoveTask& task, const LaunchedMemory& memory) {
        if (task.kind == MoveKind::tokens) {
            put_batch(batch_of(task.probe_index, task.micro), memory.address({task.buffer, 0}),
                      context_.movers.copies(lane), memory.stream());
            return;
        }
        std::vector<CopyRange> ranges;
        for (const MovePiece& piece : task.pieces) {
            const auto bytes = static_cast<size_t>(piece.bytes);
            ranges.push_back({{memory.address({task.source, piece.source}), bytes},
                              {memory.address({task.buffer, piece.offset}), bytes}});
        }
        context_.movers.copies(lane).transfer(ranges, memory.stream());
    }

    void move_on_disk(const MoveTask& task, const TaskMemory& memory) {
        // Pieces may lie in one lease or in several; offsets are those of the buffer.
        std::byte* buffer = memory.address({task.buffer, task.pieces[0].offset}) - task.pieces[0].offset;
        const std::vector<DiskRange> ranges = context_.store->ranges(task, buffer);
        const bool writes = task.kind == MoveKind::disk_write;
        // Summed piece by piece while the drive moves the next one: a sum after the whole move added a quarter to its
        // time on a drive of 1.7 GB/s.
        PieceSums sums = context_.store->piece_sums(task);
        context_.movers.disk(task.kind).transfer(
            writes ? FileVerb::write : FileVerb::read, ranges,
            [&](size_t piece, std::span<const std::byte> bytes) { sums.add(piece, bytes); });
        writes ? context_.store->note_written(task, sums) : context_.store->verify(task, sums);
    }

    void perform_param(const Task& task, const ParamTask& param, const LaunchedMemory& memory) {
        const StepParams& step = task.when == When::deferred ? deferred_ : param.speculative ? speculation_ : params_;
        // The schedule cannot know: updates of a step that is not applied are issued, and do nothing.
        if (param.kernel->is_update && !step.apply) return;
        windlass::perform_param(param,
                                {.setup = context_.setup,
                                 .elements = context_.elements,
                                 .step = step,
                                 .compute = schedule_.size.compute,
                                 .recent = context_.recent,
                                 .sums = context_.sums,
                                 .writes_back = context_.writes_back},
                                memory, report_.groups);
    }

    // Nothing that hangs on it is issued before this returns. Where answers are written, not in every round.
    void decide(Stage stage) {
        reduced_ = true;
        const Recipe& recipe = context_.setup.recipe;
        const ObjectiveRows* const objective = recipe.probes() ? input_.objective : nullptr;
        const auto losses = step_losses(outputs_, recipe, input_.micro, objective, context_.answers);
        if (!losses) return;
        Evidence evidence{.losses = *losses};
        if (stage != Stage::on_losses && recipe.needs_norm()) evidence.norm = outputs_.norm(context_.setup.model);
        const Decision found = recipe.decision(stage)(context_.setup.method_options, evidence, params_);
        report_.loss_sum = found.loss;
        report_.grad_norm = found.norm;
        report_.clip_scale = params_.clip_scale;
        report_.spoiled = found.spoiled;
    }

    const Schedule& schedule_;
    ExecuteContext& context_;
    const ScheduleSet& set_;
    const StepInput& input_;
    const StepOutputs outputs_;
    StepParams params_;
    StepParams speculation_;  // what updates go by until the norm is known
    StepParams deferred_;     // and what deferred updates go by: the step before
    StepReport report_;
    bool reduced_ = false;
    PointOfNoReturn point_of_no_return_;  // where there is no store
    TaskLanes lanes_;
};

}  // namespace

StepReport execute(const Schedule& schedule, ExecuteContext& context, const StepInput& input) {
    WINDLASS_CHECK(static_cast<int>(input.micro.size()) == schedule.micro_batches,
                   "{} micro-batches for a schedule of {}", input.micro.size(), schedule.micro_batches);
    WINDLASS_CHECK(context.answers == nullptr || schedule.writes_answers, "{} has no rows for answers that are written",
                   schedule.name);
    return Execution(schedule, context, input).run();
}

}  // namespace windlass
