// A phase (method/phase.h): forward, then backward block by block. A block's gradients live until its kernel has taken
// all of the block's groups, so no more of them are alive than those of one block. Everything between forward and
// backward is computed again: a step keeps only what the gradients of trained parameters need.
#include <algorithm>
#include <map>
#include <utility>

#include "base/index.h"
#include "method/phase.h"
#include "schedule/copies.h"
#include "schedule/lower_buffers.h"
#include "schedule/lower_updates.h"

namespace windlass {
namespace {

class PhaseLowering {
  public:
    PhaseLowering(ScheduleBuilder& builder, const ScheduleRequest& request, const ParamTuples& tuples)
        : phase_(*request.phase),
          iterations_(request.iterations),
          builder_(builder),
          in_(builder.in()),
          blocks_(static_cast<int>(in_.model.blocks.size())),
          micro_batches_(builder.schedule().micro_batches),
          first_(blocks_),
          activations_(builder),
          stream_(builder, {.weights = [this](int param) { return host_weights_.at(param); },
                            .gradient = {},
                            .use = [this](const ParamTask& group) { take(group); }}) {
        // One half fits and the other judges: a fit that holds for its own rows alone must not pass.
        WINDLASS_CHECK(micro_batches_ % 2 == 0, "{} micro-batches have no halves", micro_batches_);
        for (const auto& tuple : tuples) {
            const int block = in_.param(tuple->differentiated).spec.block;
            tuples_[block].push_back(tuple);
            first_ = std::min(first_, block);
        }
        builder_.schedule().outputs.assign(at(micro_batches_), {});
    }

    void write() {
        const std::vector<Visit> list = visits();
        std::vector<BlockWeights> fetched;
        for (size_t index = 0; index < list.size(); ++index) {
            while (fetched.size() < std::min(list.size(), index + 1 + at(in_.plan.read_ahead)))
                fetched.push_back(builder_.read_weights(builder_.block(list[fetched.size()].block)));
            BlockWeights& weights = fetched[index];
            builder_.upload(builder_.block(list[index].block), weights);
            builder_.convert(list[index].block, weights);
            for (int micro = 0; micro < micro_batches_; ++micro) {
                activations_.bring(list[index], micro);
                pass(list[index], weights, micro);
            }
            if (list[index].backward) finish(list[index].block, weights);
        }
    }

  private:
    std::vector<Visit> visits() const {
        std::vector<Visit> list;
        // The head has no forward of its own: its backward computes the loss as well.
        for (int block = 0; block < blocks_ - 1; ++block) list.push_back({block, false});
        for (int block = blocks_ - 1; block >= first_; --block) list.push_back({block, true});
        return list;
    }

    void pass(const Visit& visit, const BlockWeights& weights, int micro) {
        const int block = visit.block;
        ScheduleBuilder::SegmentKey key{.backward = visit.backward};
        if (visit.backward) key.passes_gradient_on = block > first_;
        RunTask task{
            .segment = builder_.segment(builder_.block(block), std::move(key)), .block = block, .micro = micro};
        std::vector<BufferUse> uses;
        if (visit.backward) {
            activations_.bind_reverse(task, uses, block > first_);
            bind_gradients(task, uses);
        } else {
            activations_.bind_forward(task, uses);
        }
        builder_.run(std::move(task), weights, std::move(uses));
        if (!visit.backward && block >= first_) activations_.spill(block, micro);
    }

    // Those of the first half of the micro-batches add to one buffer, those of the second to another.
    void bind_gradients(RunTask& task, std::vector<BufferUse>& uses) {
        const int half = micro_batches_ / 2;
        const bool judges = task.micro >= half;
        if (task.micro % half == 0) (judges ? judge_ : fit_) = make_gradients(task.block, TierKind::device);
        for (const int param : in_.model.blocks[at(task.block)].params) {
            const bool is_wanted = in_.wants_gradient(param);
            task.gradients.push_back(is_wanted ? (judges ? judge_ : fit_).at(param) : BufferSlice());
            task.first_gradient.push_back(is_wanted && task.micro % half == 0 ? 1 : 0);
            if (!is_wanted) continue;
            const BufferSlice& slice = task.gradients.back();
            uses.push_back(
                {slice.buffer, true, slice.offset, slice.offset + aligned_bytes(in_.param(param).numel(), 4)});
        }
    }

    using Slices = std::map<int, BufferSlice>;  // by parameter

    Slices make_gradients(int block, TierKind tier) {
        Slices slices;
        int64_t end = 0;
        for (const auto& tuple : tuples_[block]) {
            slices[tuple->differentiated].offset = end;
            end += aligned_bytes(in_.param(tuple->differentiated).numel(), 4);
        }
        if (end == 0) return slices;
        const BufferId made = builder_.buffer({"gradients", block}, MemoryTag::gradients, end, tier);
        for (auto& [param, slice] : slices) slice.buffer = made;
        return slices;
    }

    // One group after the other.
    void finish(int block, const BlockWeights& weights) {
        if (tuples_[block].empty()) return;
        // The kernel runs in the host's memory, and needs both gradients there.
        if (in_.plan.own_memory()) {
            fit_ = gradients_down(block, fit_);
            judge_ = gradients_down(block, judge_);
        }
        for (const auto& tuple : tuples_[block]) {
            tuple_ = tuple;
            Copies up(MoveKind::up, DiskPlace::weight);
            take_weights(block, weights, up);
            ChunkGroup group;
            for (const int param : tuple->params) {
                const std::vector<ChunkSpan> chunks = chunks_of(in_.model, param);
                group.insert(group.end(), chunks.begin(), chunks.end());
            }
            stream_.add(std::move(group));
            // take() works on tuple_, so no group may be under way when the next one begins.
            stream_.drain();
            up.move(builder_);
        }
    }

    Slices gradients_down(int block, const Slices& from) {
        Slices held = make_gradients(block, TierKind::host);
        Copies down(MoveKind::down, DiskPlace::gradient);
        for (const auto& [param, slice] : from)
            down.add(param, slice, held.at(param), aligned_bytes(in_.param(param).numel(), 4));
        down.move(builder_);
        return held;
    }

    bool stays_on_device(int param, Home home) const {
        return in_.plan.own_memory() && home == Home::device && in_.place(param).resident.buffer == kNoBuffer;
    }
    // What lies on a device with memory of its own, in the host's; `up` takes it back.
    BufferSlice bring_down(int param, const BufferSlice& slice, int64_t bytes, MemoryTag tag, Copies& up) {
        const BufferSlice held{builder_.buffer("refreshed", tag, round_up(bytes, kParamAlignment), TierKind::host), 0};
        Copies down(MoveKind::down, DiskPlace::weight);
        down.add(param, slice, held, bytes);
        down.move(builder_);
        up.add(param, held, slice, bytes);
        return held;
    }

    void take_weights(int block, const BlockWeights& weights, Copies& up) {
        host_weights_.clear();
        const std::vector<int>& params = in_.model.blocks[at(block)].params;
        for (const int param : tuple_->params) {
            BufferSlice slice = weights.host_hi[at(std::ranges::find(params, param) - params.begin())];
            if (slice.buffer == kNoBuffer) slice = in_.place(param).weights;
            if (stays_on_device(param, in_.plan_of(param).weights))
                slice = bring_down(param, slice, weight_bytes(in_.param(param), in_.param(param).numel()),
                                   MemoryTag::weights, up);
            host_weights_[param] = slice;
        }
    }

    // What the device has of the state comes down and goes up again, too.
    void take(const ParamTask& group) {
        ParamTask task{.kernel = phase_.kernel,
                       .block = in_.param(tuple_->differentiated).spec.block,
                       .chunks = group.chunks,
                       .tuple = tuple_,
                       .iterations = iterations_};
        const BufferSlice &fit = fit_.at(tuple_->differentiated), &judge = judge_.at(tuple_->differentiated);
        Copies up(MoveKind::up, DiskPlace::state);
        for (ParamChunk& chunk : task.chunks) {
            const Param param = in_.param(chunk.param);
            // A phase takes sums in f32, whatever form a step's gradients wait in.
            chunk.gradient_format = GradientFormat::f32;
            if (chunk.param == tuple_->differentiated) {
                chunk.gradient = behind(fit, 4 * chunk.first);
                chunk.judge = behind(judge, 4 * chunk.first);
            }
            if (!stays_on_device(chunk.param, in_.plan_of(chunk.param).state)) continue;
            if (chunk.low.buffer != kNoBuffer)
                chunk.low = bring_down(chunk.param, chunk.low, chunk.count * 2, MemoryTag::low_halves, up);
            for (size_t s = 0; s < chunk.state.size(); ++s) {
                if (chunk.state[s].buffer != kNoBuffer)
                    chunk.state[s] = bring_down(chunk.param, chunk.state[s],
                                                state_bytes(in_.recipe.state[s], param.spec, chunk.first, chunk.count),
                                                MemoryTag::state, up);
            }
        }
        // The host computes a phase's kernel on any device.
        const bool apart = in_.plan.own_memory() || in_.plan.host_threads > 0;
        builder_.param(std::move(task), apart ? LaneKind::host : LaneKind::compute);
        up.move(builder_);
    }

    const Phase& phase_;
    int iterations_;
    ScheduleBuilder& builder_;
    const LowerInput& in_;
    int blocks_, micro_batches_;
    int first_;                          // the first block that has a group
    std::map<int, ParamTuples> tuples_;  // by block
    ActivationBuffers activations_;
    UpdateStream stream_;
    Slices fit_, judge_;                       // gradients of the block that is at work
    std::shared_ptr<const ParamTuple> tuple_;  // that is at work
    Slices host_weights_;                      // its weights, where the host reads and writes them
};

}  // namespace

Schedule lower_phase(const LowerInput& input, const ScheduleRequest& request) {
    // A phase needs gradients of weights that no step trains, and no others.
    LowerInput differentiated = input;
    differentiated.differentiated.assign(input.model.params.size(), 0);
    const ParamTuples tuples = request.phase->tuples(input.model);
    for (const auto& tuple : tuples) differentiated.differentiated[at(tuple->differentiated)] = 1;
    ScheduleBuilder builder(differentiated, request);
    PhaseLowering(builder, request, tuples).write();
    builder.schedule().is_phase = true;
    return builder.finish();
}

}  // namespace windlass
