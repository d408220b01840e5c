#include "run/execute.h"

#include <cmath>
#include <exception>
#include <limits>
#include <mutex>

#include "base/clock.h"
#include "base/index.h"
#include "device/cpu/cpu_stream.h"
#include "run/kept.h"
#include "run/norm.h"
#include "run/step_outputs.h"
#include "run/task_memory.h"
#include "schedule/lower.h"

namespace windlass {
namespace {

constexpr int kGivenUp = std::numeric_limits<int>::max();  // a lane that stopped early: nobody waits for it any more

// Whether a step may still be dropped where its state has no other version: until something changes it. From then on it
// is finished. Which of the two comes first is decided once for all lanes.
class Turning {
  public:
    explicit Turning(bool changes) : changes_(changes ? 1 : 0) {}
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
          turning_(context.holds()),
          done_(schedule.lanes.size()),
          busy_ns_(schedule.lanes.size(), 0) {
        report_.tasks.resize(schedule.tasks.size());
        if (input.objective != nullptr) ask_head(input.objective, params_);
        if (context.setup.recipe.prepare != nullptr)
            context.setup.recipe.prepare(context.setup.method_options, params_);
        guess_ = params_;
    }

    StepReport run() {
        const int64_t start = now_ns();
        const int own = find_lane(schedule_.lanes, LaneKind::compute);
        std::vector<int> others;
        for (int lane = 0; lane < std::ssize(schedule_.lanes); ++lane) {
            if (lane != own && uses(lane)) others.push_back(lane);
        }
        context_.lanes.run(own, others, [this](int lane) { work(lane); });
        for (size_t lane = 0; lane < busy_ns_.size(); ++lane)
            report_.busy_seconds[slot(schedule_.lanes[lane].kind)] += static_cast<double>(busy_ns_[lane]) * 1e-9;
        if (failure_) std::rethrow_exception(failure_);
        if (stopped_.load()) throw Error(ExitCode::interrupted, "interrupted; the step was not applied");
        if (!reduced_ && !schedule_.gives_logits) report_.loss_sum = outputs_.sum(schedule_.outputs);
        report_.applied = params_.apply;
        report_.params = params_;
        report_.seconds = seconds_since(start);
        return std::move(report_);
    }

  private:
    bool uses(int lane) const {
        return std::any_of(schedule_.tasks.begin(), schedule_.tasks.end(),
                           [lane](const Task& task) { return task.lane == lane; });
    }

    void work(int lane) {
        std::atomic<int>& done = done_[at(lane)];
        for (size_t index = 0; index < schedule_.tasks.size(); ++index) {
            const Task& task = schedule_.tasks[index];
            if (task.lane != lane) continue;
            wait(task);
            wait_for(context_.movers.jitter(lane));
            if (failed_.load()) break;
            if (stops() || !begins_change(task)) {
                stopped_.store(true);
                break;
            }
            try {
                TaskTime& time = report_.tasks[index];
                time.start_ns = now_ns();
                if (is_due(task)) perform(task);
                time.end_ns = now_ns();
                busy_ns_[at(lane)] += time.end_ns - time.start_ns;
            } catch (...) {
                fail(std::current_exception());
                break;
            }
            done.fetch_add(1, std::memory_order_release);
            done.notify_all();
        }
        done.store(kGivenUp, std::memory_order_release);
        done.notify_all();
    }

    bool is_due(const Task& task) const {
        if (!task.when_pending) return true;
        return context_.holds() && (context_.goes_home || !goes_home(task));
    }

    bool has_store() const { return context_.setup.plan.store; }
    bool stops() { return context_.stop.load() && (has_store() || turning_.drop()); }
    // An update of state that has no store, once begun, is finished; so is one that was held, from the start.
    bool begins_change(const Task& task) {
        return has_store() || task.verb != Verb::update || task.when_pending || turning_.begin_change();
    }

    void wait(const Task& task) {
        for (const Wait& need : task.after) {
            const std::atomic<int>& count = done_[at(need.lane)];
            for (int done = count.load(std::memory_order_acquire); done < need.count;
                 done = count.load(std::memory_order_acquire))
                count.wait(done, std::memory_order_acquire);
        }
    }

    void fail(std::exception_ptr failure) {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::move(failure);
        failed_.store(true);
    }

    void perform(const Task& task) {
        const TaskMemory memory(task, set_, schedule_, context_.arenas);
        switch (task.verb) {
            case Verb::run:
                perform_run(schedule_.runs[at(task.payload)], memory);
                break;
            case Verb::move:
                perform_move(schedule_.moves[at(task.payload)], memory);
                break;
            case Verb::update:
                perform_update(task, schedule_.updates[at(task.payload)], memory);
                break;
            case Verb::reduce:
                perform_reduce(schedule_.reduces[at(task.payload)], memory);
                break;
            case Verb::arrive:
                perform_arrival(schedule_.arrivals[at(task.payload)], memory);
                break;
            case Verb::mark:
                context_.mark();
                if (context_.holds()) turning_.end_change();
                break;
        }
    }

    const Batch& batch_of(const RunTask& task) const {
        if (context_.answers == nullptr) return input_.micro[at(task.micro)];
        return context_.answers->batch(task.stream, task.micro);
    }

    void perform_run(const RunTask& task, const TaskMemory& memory) {
        const ModelSpec& model = context_.setup.model;
        const Block& block = at(task.block) < model.blocks.size() ? model.blocks[at(task.block)] : model.logits;
        const Segment& segment = schedule_.segments[at(task.segment)];
        std::vector<Weight> weights;
        std::vector<GradientSink> sinks;
        for (size_t index = 0; index < block.params.size(); ++index) {
            const Shape& shape = block.program->weights[index].shape;
            Weight weight;
            weight.base = Tensor(task.weight_type, shape, memory.address(task.hi[index]));
            if (!task.lo.empty()) weight.low = Tensor(DType::i16, shape, memory.address(task.lo[index]));
            if (!task.directions.empty()) bind_direction(task, index, shape, memory, weight);
            weights.push_back(weight);
            if (task.gradients.empty()) continue;
            GradientSink sink;
            if (std::byte* target = memory.address(task.gradients[index]); target != nullptr)
                sink = {Tensor(DType::f32, shape, target), task.first_gradient[index] != 0};
            sinks.push_back(sink);
        }
        SegmentBinding binding{.weights = weights,
                               .sinks = sinks,
                               .batch = &batch_of(task),
                               .step = &params_,
                               .profile = context_.setup.profile};
        for (size_t region = 0; region < task.regions.size(); ++region)
            binding.base[region] = memory.address(task.regions[region]);
        bind_cache(task, memory, block, binding);
        if (schedule_.gives_logits) bind_row_length(task, segment, binding);
        run_segment(segment, binding, context_.stream);
    }

    // k of them, one behind the other: rows follow rows, and vectors are rows. Of factors the left ones come first.
    void bind_direction(const RunTask& task, size_t index, const Shape& shape, const TaskMemory& memory,
                        Weight& weight) const {
        const OpSize& size = schedule_.segments[at(task.segment)].size;
        std::byte* const numbers = memory.address(task.directions[index]);
        if (const int64_t rank = factor_rank(size, shape); rank > 0) {
            weight.left = Tensor(DType::f32, {size.k * rank, shape[0]}, numbers);
            weight.right = Tensor(DType::f32, {size.k * rank, shape[1]}, numbers + weight.left.bytes());
            return;
        }
        const Shape all = shape.rank() == 2 ? Shape{size.k * shape[0], shape[1]} : Shape{size.k, shape.numel()};
        weight.direction = Tensor(task.weight_type, all, numbers);
    }

    void bind_cache(const RunTask& task, const TaskMemory& memory, const Block& block, SegmentBinding& binding) const {
        if (task.cache_keys.buffer == kNoBuffer) return;
        const int64_t columns = cache_columns(block);
        const Shape shape{set_.ids.cache_rows, columns};
        binding.cache_keys = Tensor(schedule_.size.compute, shape, memory.address(task.cache_keys));
        binding.cache_values = Tensor(schedule_.size.compute, shape, memory.address(task.cache_values));
    }

    // What is decoded may have fewer tokens than the schedule was made for: its rows then lie closer together.
    void bind_row_length(const RunTask& task, const Segment& segment, SegmentBinding& binding) const {
        const int64_t length = binding.batch->row_length, most = schedule_.size.row_length;
        WINDLASS_CHECK(binding.batch->rows == schedule_.size.rows && (length == most || (length > 1 && length < most)),
                       "{} rows of {} tokens in a schedule for {} of {}", binding.batch->rows, length,
                       schedule_.size.rows, most);
        binding.row_length = length;
        if (task.last_token_of < 0) return;
        const ValueSpec& value = segment.program->values[at(segment.program->inputs[0])].spec;
        const int64_t token_bytes = value.cols * dtype_bytes(dtype_of(value.type, segment.size.compute));
        binding.base[static_cast<size_t>(Region::input)] += ((task.last_token_of + 1) * length - 1) * token_bytes;
    }

    void perform_move(const MoveTask& task, const TaskMemory& memory) {
        if (task.kind == MoveKind::up || task.kind == MoveKind::down) {
            std::vector<CopyRange> ranges;
            for (const MovePiece& piece : task.pieces) {
                const auto bytes = static_cast<size_t>(piece.bytes);
                ranges.push_back({{memory.address({task.source, piece.source}), bytes},
                                  {memory.address({task.buffer, piece.offset}), bytes}});
            }
            context_.movers.copies(task.kind).transfer(ranges);
            return;
        }
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

    void perform_update(const Task& task, const UpdateTask& update, const TaskMemory& memory) {
        const StepParams& params = task.when_pending ? *context_.pending : update.guessed ? guess_ : params_;
        if (!params.apply && !update.restores) return;
        Stream& stream = schedule_.lanes[at(task.lane)].kind == LaneKind::host ? *context_.host : context_.stream;
        const UpdateKernel kernel = context_.setup.recipe.update[static_cast<size_t>(stream.device())];
        std::vector<std::byte*> state;
        for (const UpdateChunk& chunk : update.chunks) {
            state.clear();
            for (const BufferSlice& slice : chunk.state) state.push_back(memory.address(slice));
            const UpdateCall call{.param = context_.setup.model.param(chunk.param),
                                  .first = chunk.first,
                                  .element = context_.elements[at(chunk.param)] + chunk.first,
                                  .count = chunk.count,
                                  .hi = reinterpret_cast<uint16_t*>(memory.address(chunk.hi)),
                                  .lo = reinterpret_cast<int16_t*>(memory.address(chunk.lo)),
                                  .state = state,
                                  .gradient = reinterpret_cast<const float*>(memory.address(chunk.gradient)),
                                  .step = &params};
            std::byte* kept = memory.address(chunk.kept);
            if (update.restores)
                restore_version(context_.setup.recipe, call, kept, cpu_team(stream));
            else if (kept != nullptr)
                keep_version(context_.setup.recipe, call, kept, cpu_team(stream));
            if (params.apply) kernel(call, stream);
        }
    }

    // Updates that this arrival of a parameter applies to it. What has gone home before it is fetched once more has
    // them.
    int updates_due(const ArriveParam& each) const {
        const RecentSteps* const recent = context_.recent;
        if (recent == nullptr) return 0;
        // Of a window that is not over, wherever weights live, all arrivals find none.
        if (context_.setup.model.perturb[at(each.param)].folding == Folding::each_window)
            return each.updates || !context_.goes_home ? recent->pending() : 0;
        if (each.updates) return each.in_place ? recent->pending_in_place() : recent->pending();
        return each.again && !context_.goes_home ? recent->pending() : 0;
    }

    void perform_arrival(const ArriveTask& task, const TaskMemory& memory) {
        const ArrivalKernel kernel = context_.setup.recipe.arrive[static_cast<size_t>(context_.stream.device())];
        for (const ArriveParam& each : task.params) {
            const int due = updates_due(each);
            std::byte *const plain = memory.address(each.plain), *const probes = memory.address(each.probes);
            if (due == 0 && plain == nullptr && probes == nullptr) continue;
            kernel({.param = context_.setup.model.param(each.param),
                    .element = context_.elements[at(each.param)],
                    .weights = memory.address(each.weights),
                    .steps = due > 0 ? context_.recent->steps() : std::span<const StepParams>(),
                    .pending = due,
                    .folds = context_.goes_home,
                    .sum = context_.sums != nullptr ? context_.sums->of(each.param) : nullptr,
                    .step = &params_,
                    .sweep = task.sweep,
                    .point = task.point,
                    .compute = schedule_.size.compute,
                    .plain = plain,
                    .probes = probes},
                   context_.stream);
        }
    }

    // What a forward-only step found.
    void conclude() {
        reduced_ = true;
        const auto losses =
            step_losses(outputs_, context_.setup.recipe, input_.micro, input_.objective, context_.answers);
        if (!losses) return;
        report_.loss_sum = context_.setup.recipe.conclude(context_.setup.method_options, *losses, params_);
        report_.grad_norm = std::abs(params_.scalars[0]);
    }

    void perform_reduce(const ReduceTask& task, const TaskMemory& memory) {
        if (task.param >= 0) {
            sum_squares(reinterpret_cast<const float*>(memory.address(task.gradient)),
                        context_.setup.model.params[at(task.param)].numel(), context_.norm_partials[at(task.param)],
                        cpu_team(context_.stream));
            return;
        }
        if (context_.setup.recipe.probes()) return conclude();
        std::vector<double> sums;
        for (const std::vector<double>& partial : context_.norm_partials) sums.push_back(tree_sum(partial));
        report_.grad_norm = std::sqrt(tree_sum(sums));
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
    StepParams guess_;  // what updates go by until the norm is known
    StepReport report_;
    bool reduced_ = false;
    Turning turning_;  // where there is no store
    std::vector<std::atomic<int>> done_;
    std::vector<int64_t> busy_ns_;
    std::atomic<bool> failed_{false}, stopped_{false};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

}  // namespace

StepReport execute(const Schedule& schedule, ExecuteContext& context, const StepInput& input) {
    WINDLASS_CHECK(static_cast<int>(input.micro.size()) == schedule.micro_count,
                   "{} micro-batches for a schedule of {}", input.micro.size(), schedule.micro_count);
    return Execution(schedule, context, input).run();
}

}  // namespace windlass
