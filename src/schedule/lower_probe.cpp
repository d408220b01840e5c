#include <algorithm>

#include "base/index.h"
#include "schedule/builder.h"

namespace windlass {
namespace {

// A step of a method that never goes backward. Each block is fetched once; the update of the step before is applied to
// it and written back at once, during what follows. While the block is here, every pass of the recipe perturbs it and
// sends all micro-batches through. So weights cross each link once a step, however many directions there are (ZO2's
// order: arXiv 2503.12668, with the update written back before the forwards instead of after them).
//
// With Plan::writeback_steps above 1 blocks are written back only so often. In between, the updates since the last
// write-back are applied to each fetched copy. The schedule is the same for both kinds of step: its tasks say what each
// kind does (When, Applies).
//
// Without passes it is nothing but the updates: a flush.
class ProbeLowering {
  public:
    ProbeLowering(ScheduleBuilder& builder, bool passes)
        : builder_(builder),
          in_(builder.in()),
          blocks_(static_cast<int>(in_.model.blocks.size())),
          passes_(passes ? static_cast<int>(in_.recipe.passes.size()) : 0) {
        for (int pass = 0; pass < passes_; ++pass) {
            first_.push_back(results_);
            // A tangent pass goes once through the weights themselves, and has the loss and a derivative along each
            // direction.
            results_ += is_tangent(pass) ? 1 + k_of(pass) : k_of(pass);
            streams_ += is_tangent(pass) ? 1 : k_of(pass);
        }
        stream_.assign(at(streams_ * micro_batches()), {});
        tangents_.assign(at(passes_ * micro_batches()), {});
        builder_.schedule().outputs.assign(at(results_ * micro_batches()), {});
        landed_.assign(at(blocks_), false);
    }

    void write() {
        std::vector<BlockWeights> fetched;
        size_t ready = 0;
        const size_t early = at(in_.plan.read_ahead);
        const size_t late = in_.plan.own_memory() ? std::min(early, at(in_.plan.upload_ahead)) : 0;
        const auto count = static_cast<size_t>(blocks_);
        for (size_t index = 0; index < count; ++index) {
            builder_.arrive(static_cast<int>(index));
            while (fetched.size() < std::min(count, index + 1 + early) && is_current(static_cast<int>(fetched.size())))
                fetched.push_back(builder_.read_weights(builder_.block(static_cast<int>(fetched.size()))));
            for (; ready < std::min(fetched.size(), index + 1 + late); ++ready)
                builder_.upload(builder_.block(static_cast<int>(ready)), fetched[ready],
                                slot(static_cast<int>(ready), late + 1));
            visit(static_cast<int>(index), fetched[index]);
        }
        if (passes_ > 0) builder_.decide(Stage::at_end);
    }

  private:
    int micro_batches() const { return builder_.schedule().micro_batches; }
    int k_of(int pass) const { return in_.recipe.passes[at(pass)].k; }
    bool is_tangent(int pass) const { return in_.recipe.passes[at(pass)].kind == PassKind::tangent; }

    // A block is read or goes up only when the update of its weights is on its way home.
    bool is_current(int block) const {
        const std::vector<int>& params = in_.model.blocks[at(block)].params;
        return std::all_of(params.begin(), params.end(), [&](int param) {
            const int home = in_.param(param).spec.block;
            return home == block || landed_[at(home)];
        });
    }

    // Layers go up into `count` slots in turn; a slot waits only for the layer that it held before. Separate buffers
    // would take over any free addresses, and wait for their last use. Embedding and head, of other sizes, have buffers
    // of their own.
    BufferId slot(int block, size_t count) {
        if (!in_.plan.own_memory() || block == 0 || block + 1 == blocks_) return kNoBuffer;
        slots_.resize(count, kNoBuffer);
        const size_t index = at(block) % count;
        if (slots_[index] != kNoBuffer) return slots_[index];
        int64_t bytes = 0;
        for (int other = block; other + 1 < blocks_; other += static_cast<int>(count))
            bytes = std::max(bytes, builder_.upload_bytes(builder_.block(other)));
        if (bytes == 0) return kNoBuffer;
        return slots_[index] = builder_.buffer("slot", MemoryTag::weights, bytes, TierKind::device);
    }

    void visit(int block, const BlockWeights& weights) {
        if (passes_ == 0) {
            builder_.materialize({.block = block, .updates = true}, weights);
            write_back(block, weights);
        }
        int stream = 0;
        for (int pass = 0; pass < passes_; ++pass) {
            const bool one_by_one = in_.plan.one_probe && !is_tangent(pass) && k_of(pass) > 1;
            for (int turn = 0; turn < (one_by_one ? k_of(pass) : 1); ++turn) {
                // Only the first materialization of a visit updates: a second one would apply the same step again.
                const bool is_first = pass == 0 && turn == 0;
                const MaterializedWeights ready = builder_.materialize(
                    {.block = block, .pass = pass, .point = one_by_one ? turn : -1, .updates = is_first}, weights);
                if (is_first) write_back(block, weights);
                for (int point = 0; point < std::ssize(ready.points); ++point, ++stream) {
                    for (int micro = 0; micro < micro_batches(); ++micro)
                        run_block(block, ready, {pass, point, turn + point, stream, micro});
                }
            }
        }
    }

    // To host memory and to disk, where they live there, or where every step is to be found on disk.
    void write_back(int block, const BlockWeights& weights) {
        builder_.set_when(When::write_back);
        MoveTask down{.kind = MoveKind::down}, write{.kind = MoveKind::disk_write, .place = DiskPlace::weight};
        for (size_t index = 0; index < in_.model.blocks[at(block)].params.size(); ++index) {
            const int param = in_.model.blocks[at(block)].params[index];
            if (in_.param(param).spec.block != block || !in_.is_stored_to(param)) continue;
            const BufferSlice &host = weights.host_hi[index], &device = weights.read[index].data;
            if (host.buffer != device.buffer) add_down(down, param, device, host);
            if (in_.plan.store) add_write(write, param, host);
        }
        flush(down);
        flush(write);
        landed_[at(block)] = true;
        // Also in steps that write nothing back: their updates in place have landed, and the engine has to know.
        builder_.set_when(When::deferred);
        if (block + 1 == blocks_) builder_.mark();
        builder_.set_when(When::always);
    }
    // A task is of one buffer, or of one pair.
    void add_down(MoveTask& down, int param, const BufferSlice& from, const BufferSlice& to) {
        if (!down.pieces.empty() && (down.source != from.buffer || down.buffer != to.buffer)) flush(down);
        down.source = from.buffer;
        down.buffer = to.buffer;
        const int64_t bytes = aligned_weight_bytes(in_.param(param), in_.param(param).numel());
        down.pieces.push_back({.param = param, .offset = to.offset, .source = from.offset, .bytes = bytes});
    }
    void add_write(MoveTask& write, int param, const BufferSlice& from) {
        if (!write.pieces.empty() && write.buffer != from.buffer) flush(write);
        write.buffer = from.buffer;
        for (const ChunkSpan& chunk : in_.chunks(param)) {
            write.pieces.push_back({.param = param,
                                    .first = chunk.first,
                                    .count = chunk.count,
                                    .offset = from.offset + weight_bytes(in_.param(param), chunk.first),
                                    .bytes = piece_bytes(in_, DiskPlace::weight, chunk)});
        }
    }
    void flush(MoveTask& task) {
        if (task.pieces.empty()) return;
        MoveTask ready = task;
        task.pieces.clear();
        builder_.move(std::move(ready));
    }

    struct Pass {
        int pass;
        int place;  // among those that were made at once
        int point;  // among those of the pass
        int probe, micro;
    };

    void run_block(int block, const MaterializedWeights& ready, const Pass& which) {
        ScheduleBuilder::SegmentKey key;
        if (is_tangent(which.pass)) {
            key.tangents = k_of(which.pass);
            key.rank = in_.recipe.passes[at(which.pass)].rank;
        }
        const int id = builder_.segment(builder_.block(block), std::move(key));
        RunTask task{.segment = id, .block = block, .micro = which.micro, .probe_index = which.probe};
        std::vector<BufferUse> uses;
        const bool is_last = block + 1 == blocks_;
        const int cell = which.probe * micro_batches() + which.micro;
        const BufferId out = hand_on(task, uses, stream_[at(cell)], Region::input, Region::output, "out", is_last);
        if (is_last) result(first_[at(which.pass)] + which.point, which.micro) = {out, 0};
        if (is_tangent(which.pass)) {
            bind_directions(block, ready, which.pass, task, uses);
            BufferSlice& tangents = tangents_[at(which.pass * micro_batches() + which.micro)];
            const BufferId made =
                hand_on(task, uses, tangents, Region::tangent_input, Region::tangent_output, "tangents", is_last);
            for (int j = 0; is_last && j < k_of(which.pass); ++j)
                result(first_[at(which.pass)] + 1 + j, which.micro) = {made, j * builder_.schedule().size.tokens() * 4};
        }
        builder_.run(std::move(task), ready.points[at(which.place)], std::move(uses));
    }

    BufferSlice& result(int index, int micro) {
        return builder_.schedule().outputs[at(index * micro_batches() + micro)];
    }

    // What a pass reads was written by the block before; what it writes takes its place.
    BufferId hand_on(RunTask& task, std::vector<BufferUse>& uses, BufferSlice& stream, Region in, Region out,
                     std::string_view what, bool is_last) {
        const Segment& segment = builder_.segment_at(task.segment);
        if (segment.region_bytes(in) > 0) {
            task.regions[at(in)] = stream;
            uses.push_back({stream.buffer, false});
        }
        const BufferId made =
            builder_.buffer({what, task.block, task.micro}, is_last ? MemoryTag::staging : MemoryTag::block_inputs,
                            segment.region_bytes(out), TierKind::device);
        task.regions[at(out)] = {made, 0};
        uses.push_back({made, true});
        stream = {made, 0};
        return made;
    }

    void bind_directions(int block, const MaterializedWeights& ready, int pass, RunTask& task,
                         std::vector<BufferUse>& uses) {
        task.directions = ready.directions;
        for (size_t index = 0; index < task.directions.size(); ++index) {
            const int param = in_.model.blocks[at(block)].params[index];
            const BufferSlice& slice = task.directions[index];
            if (slice.buffer == kNoBuffer) continue;  // of a frozen weight
            const int64_t bytes = k_of(pass) * builder_.copy_bytes(pass, param);
            uses.push_back({slice.buffer, false, slice.offset, slice.offset + bytes});
        }
    }

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    int blocks_, passes_;
    int results_ = 0, streams_ = 0;
    std::vector<int> first_;             // by pass: its first result
    std::vector<BufferSlice> stream_;    // by stream and micro-batch: what goes from block to block
    std::vector<BufferSlice> tangents_;  // by pass and micro-batch
    std::vector<BufferId> slots_;        // for layers that go up
    std::vector<bool> landed_;           // by block: its update is on its way home
};

}  // namespace

Schedule lower_probe(const LowerInput& input, const ScheduleRequest& request) {
    ScheduleBuilder builder(input, request);
    const bool trains = request.kind == ScheduleRequest::Kind::train;
    if (trains) builder.schedule().writeback_steps = input.plan.writeback_steps;  // a flush always writes back
    ProbeLowering(builder, trains).write();
    return builder.finish();
}

}  // namespace windlass
