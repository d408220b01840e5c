#include "run/execute.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/clock.h"
#include "base/index.h"
#include "run/batch_input.h"
#include "run/gradients.h"
#include "run/kept.h"
#include "run/norm.h"
#include "run/refresh.h"
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
        speculation_ = params_;
    }

    StepReport run() {
        const int64_t start = now_ns();
        lanes_.run(context_.workers);
        if (const std::exception_ptr failure = lanes_.failure()) std::rethrow_exception(failure);
        if (lanes_.stopped()) throw Error(ExitCode::interrupted, "interrupted; the step was not applied");
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
        return context_.holds() && (context_.writes_back || task.when == When::deferred);
    }

    bool has_store() const { return context_.setup.plan.store; }
    bool stops() { return context_.stop.load() && (has_store() || point_of_no_return_.drop()); }
    // An update of state that has no store, once begun, is finished; so is one that was deferred, from the start.
    bool begins_change(const Task& task) {
        const bool changes = task.verb == Verb::update || task.verb == Verb::refresh;
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
                return copy(schedule_.moves[at(task.payload)], memory);
            case Verb::update:
                return perform_update(task, schedule_.updates[at(task.payload)], memory);
            case Verb::round:
                return round_gradients(schedule_.rounds[at(task.payload)], context_.setup.numerics, context_.elements,
                                       params_, memory);
            case Verb::reduce:
                return add_squares(schedule_.reduces[at(task.payload)], memory);
            case Verb::materialize:
                return perform_materialize(schedule_.materializations[at(task.payload)], memory);
            case Verb::input:
                return perform_input(schedule_.inputs[at(task.payload)], memory);
            case Verb::refresh:
                report_.refreshed.push_back(refresh_layer(schedule_.refreshes[at(task.payload)], context_.setup,
                                                          context_.elements, params_, memory));
                return;
            case Verb::mark:
                break;
        }
        WINDLASS_CHECK(false, "a mark is no work of a stream");
    }

    // What drives do, and what is decided: the step's losses and gradients are complete, and nothing that hangs on
    // their norm is issued before this returns.
    void perform_on_host(const Task& task, const TaskMemory& memory) {
        if (task.verb == Verb::move) return move_on_disk(schedule_.moves[at(task.payload)], memory);
        if (task.verb == Verb::reduce) return decide(schedule_.reduces[at(task.payload)]);
        WINDLASS_CHECK(task.verb == Verb::mark, "this is work of a stream");
        context_.mark();
        if (context_.holds()) point_of_no_return_.end_change();
    }

    // Where the host has it.
    const Batch& batch_of(int probe_index, int micro) const {
        return context_.answers == nullptr ? input_.micro[at(micro)] : context_.answers->batch(probe_index, micro);
    }

    void perform_input(const InputTask& task, const LaunchedMemory& memory) {
        put_batch(batch_of(task.probe_index, task.micro), memory.address(task.to), context_.movers.copies(MoveKind::up),
                  memory.stream());
    }

    void perform_run(const RunTask& task, const LaunchedMemory& memory) {
        const Batch batch = batch_at(batch_of(task.probe_index, task.micro), memory.address(task.tokens));
        run_task(task, {.setup = context_.setup, .schedule = schedule_, .batch = batch, .head = params_.head}, memory);
    }

    void copy(const MoveTask& task, const LaunchedMemory& memory) {
        std::vector<CopyRange> ranges;
        for (const MovePiece& piece : task.pieces) {
            const auto bytes = static_cast<size_t>(piece.bytes);
            ranges.push_back({{memory.address({task.source, piece.source}), bytes},
                              {memory.address({task.buffer, piece.offset}), bytes}});
        }
        context_.movers.copies(task.kind).transfer(ranges, memory.stream());
    }

    void move_on_disk(const MoveTask& task, const TaskMemory& memory) {
        // Pieces may lie in one lease or in several; offsets are those of the buffer.
        std::byte* buffer = memory.address({task.buffer, task.pieces[0].offset}) - task.pieces[0].offset;
        const std::vector<DiskRange> ranges = context_.store->ranges(task, buffer);
        const bool writes = task.kind == MoveKind::disk_write;
        PieceSums sums = context_.store->piece_sums(task);
        context_.movers.disk(task.kind).transfer(
            writes ? FileVerb::write : FileVerb::read, ranges,
            [&](size_t piece, std::span<const std::byte> bytes) { sums.add(piece, bytes); });
        writes ? context_.store->note_written(task, sums) : context_.store->verify(task, sums);
    }

    void perform_update(const Task& task, const UpdateTask& update, const LaunchedMemory& memory) {
        const StepParams& params = task.when == When::deferred ? *context_.deferred
                                   : update.speculative        ? speculation_
                                                               : params_;
        if (!params.apply && !update.restores) return;
        Stream& stream = memory.stream();
        const UpdateKernel kernel = context_.setup.recipe.update[static_cast<size_t>(stream.device())];
        std::vector<std::byte*> state;
        std::vector<int16_t*> lows;
        const std::span<const UpdateChunk> chunks = update.chunks;
        for (size_t index = 0, count = 0; index < chunks.size(); index += count) {
            const UpdateChunk& chunk = chunks[index];
            count = chunks_of_call(chunks.subspan(index));
            state.clear();
            lows.clear();
            for (const BufferSlice& slice : chunk.state) state.push_back(memory.address(slice));
            for (const UpdateChunk& each : chunks.subspan(index, count))
                lows.push_back(reinterpret_cast<int16_t*>(memory.address(each.lo)));
            const UpdateChunk& last = chunks[index + count - 1];
            const UpdateCall call{.param = context_.setup.model.param(chunk.param),
                                  .first = chunk.first,
                                  .element = context_.elements[at(chunk.param)] + chunk.first,
                                  .count = last.first + last.count - chunk.first,
                                  .hi = reinterpret_cast<uint16_t*>(memory.address(chunk.hi)),
                                  .lo = lows[0],
                                  .state = state,
                                  .gradient = wide_gradient(update, chunk, memory),
                                  .step = &params,
                                  .lows = lows,
                                  .low_elements = kChunkElements,
                                  .work = memory.address(update.work)};
            std::byte* kept = memory.address(chunk.kept);
            if (update.restores)
                restore_version(context_.setup.recipe, call, kept, stream);
            else if (kept != nullptr)
                keep_version(context_.setup.recipe, call, kept, stream);
            if (params.apply && !update.keeps_only) kernel(call, stream);
        }
    }

    // Of a method that takes whole parameters all of one, else one.
    size_t chunks_of_call(std::span<const UpdateChunk> chunks) const {
        if (!context_.setup.recipe.whole_parameters) return 1;
        const auto is_other = [&](const UpdateChunk& each) { return each.param != chunks[0].param; };
        return at(std::ranges::find_if(chunks, is_other) - chunks.begin());
    }

    int updates_due(const MaterializeParam& each) const {
        const RecentSteps* const recent = context_.recent;
        const Applies applies = context_.writes_back ? each.writing_back : each.between;
        if (recent == nullptr || applies == Applies::none) return 0;
        return applies == Applies::last ? recent->deferred_in_place() : recent->deferred();
    }

    void perform_materialize(const MaterializeTask& task, const LaunchedMemory& memory) {
        const MaterializeKernel kernel =
            context_.setup.recipe.materialize[static_cast<size_t>(memory.stream().device())];
        for (const MaterializeParam& each : task.params) {
            const int due = updates_due(each);
            std::byte *const plain = memory.address(each.plain), *const probes = memory.address(each.probes);
            if (due == 0 && plain == nullptr && probes == nullptr) continue;
            kernel({.param = context_.setup.model.param(each.param),
                    .element = context_.elements[at(each.param)],
                    .weights = memory.address(each.weights),
                    .steps = due > 0 ? context_.recent->steps() : std::span<const StepParams>(),
                    .deferred = due,
                    .merges = context_.writes_back,
                    .sum = context_.sums[at(each.param)],
                    .step = &params_,
                    .pass = task.pass,
                    .point = task.point,
                    .compute = schedule_.size.compute,
                    .plain = plain,
                    .probes = probes},
                   memory.stream());
        }
    }

    // What a forward-only step found.
    void conclude() {
        reduced_ = true;
        const auto losses =
            step_losses(outputs_, context_.setup.recipe, input_.micro, input_.objective, context_.answers);
        if (!losses) return;
        const Concluded found = context_.setup.recipe.conclude(context_.setup.method_options, *losses, params_);
        report_.loss_sum = found.loss;
        report_.grad_norm = std::abs(found.slope);
    }

    void add_squares(const ReduceTask& task, const LaunchedMemory& memory) {
        for (const ReducePart& part : task.parts) {
            const int64_t count = context_.setup.model.params[at(part.param)].numel();
            auto* sums = reinterpret_cast<double*>(memory.address(set_.ids.params[at(part.param)].squares));
            sum_squares(reinterpret_cast<const float*>(memory.address(part.gradient)), count,
                        {sums, at(div_up(count, kNormChunkElements))}, memory.stream());
        }
    }

    void decide(const ReduceTask& task) {
        const Recipe& recipe = context_.setup.recipe;
        if (recipe.probes()) return conclude();
        if (task.of_losses) return look_at_losses();
        report_.grad_norm = std::sqrt(tree_sum(outputs_.sums_of_squares(context_.setup.model)));
        if (!recipe.uses_gradients_at_once || recipe.backward_for_norm) return clip();
        // Everything is updated.
        report_.spoiled = params_.apply && !std::isfinite(report_.grad_norm);
    }

    void look_at_losses() {
        report_.loss_sum = outputs_.sum(schedule_.outputs);
        reduced_ = true;
        params_.apply = std::isfinite(report_.loss_sum);
    }

    void clip() {
        report_.loss_sum = outputs_.sum(schedule_.outputs);
        reduced_ = true;
        params_.apply = std::isfinite(report_.grad_norm) && std::isfinite(report_.loss_sum);
        // The same guard against a zero norm as torch.nn.utils.clip_grad_norm_.
        const double limit = context_.setup.method_options.max_grad_norm;
        if (limit > 0) params_.clip_scale = std::min(1.0, limit / (report_.grad_norm + 1e-6));
        report_.clip_scale = params_.clip_scale;
    }

    const Schedule& schedule_;
    ExecuteContext& context_;
    const ScheduleSet& set_;
    const StepInput& input_;
    const StepOutputs outputs_;
    StepParams params_;
    StepParams speculation_;  // what updates go by until the norm is known
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
