#include <algorithm>

#include "schedule/builder.h"

namespace windlass {
namespace {

using SegmentKind = ScheduleBuilder::SegmentKind;

size_t at(int index) {
    return static_cast<size_t>(index);
}
size_t at(Region region) {
    return static_cast<size_t>(region);
}

// A training step. Contributions to a gradient come in one canonical order under every plan: blocks from the last to
// the first, and within a block micro-batches in ascending order.
class TrainLowering {
  public:
    explicit TrainLowering(ScheduleBuilder& builder)
        : builder_(builder),
          in_(builder.in()),
          blocks_(static_cast<int>(in_.model.blocks.size())),
          micro_count_(builder.schedule().micro_count) {
        activations_.assign(at(blocks_), std::vector<Activation>(at(micro_count_)));
        gradient_.assign(in_.model.params.size(), {});
        written_.assign(in_.model.params.size(), false);
        last_user_.assign(in_.model.params.size(), 0);
        for (int block = blocks_ - 1; block >= 0; --block) {
            for (const int param : in_.model.blocks[at(block)].params) last_user_[at(param)] = block;
        }
        builder_.schedule().outputs.assign(at(micro_count_), {});
    }

    void write() {
        if (in_.plan.order == MicroOrder::vertical)
            write_vertical();
        else
            write_horizontal();
        if (in_.recipe.needs_grad_norm) builder_.reduce({});
        if (in_.recipe.on_gradient == GradientRule::accumulate) write_updates();
    }

  private:
    struct Activation {
        BufferId input = kNoBuffer;  // the block's residual stream in
        BufferId saved = kNoBuffer;
        BufferId gradient = kNoBuffer;  // of the block's output
    };

    std::vector<Visit> visits() const {
        std::vector<Visit> list;
        for (int block = 0; block < blocks_ - 1; ++block) list.push_back({block, false});
        if (in_.recipe.runs(SweepKind::reverse)) {
            for (int block = blocks_ - 1; block >= 0; --block) list.push_back({block, true});
        } else {
            list.push_back({blocks_ - 1, false});
        }
        return list;
    }

    // Without a reverse sweep, every sweep of the recipe is a forward pass through all blocks.
    size_t passes() const { return in_.recipe.runs(SweepKind::reverse) ? 1 : in_.recipe.sweeps.size(); }

    void write_vertical() {
        for (size_t sweep = 0; sweep < passes(); ++sweep) {
            const std::vector<Visit> list = visits();
            std::vector<BlockWeights> fetched;
            for (size_t index = 0; index < list.size(); ++index) {
                while (fetched.size() < std::min(list.size(), index + 1 + at(in_.plan.read_ahead)))
                    fetched.push_back(builder_.fetch(builder_.block(list[fetched.size()].block)));
                for (int micro = 0; micro < micro_count_; ++micro) pass(list[index], fetched[index], micro);
                if (list[index].reverse) finish_gradients(list[index].block);
            }
        }
    }

    // Each micro-batch goes all the way; only the first block's reverse waits for all of them, so that a table tied
    // to the head gets its contributions in the canonical order.
    void write_horizontal() {
        WINDLASS_CHECK(in_.plan.weights == Home::memory, "horizontal order is for weights that stay in memory");
        const auto visit = [&](const Visit& each, int micro) {
            pass(each, builder_.fetch(builder_.block(each.block)), micro);
        };
        for (size_t sweep = 0; sweep < passes(); ++sweep) {
            for (int micro = 0; micro < micro_count_; ++micro) {
                for (const Visit& each : visits()) {
                    if (each.block != 0 || !each.reverse) visit(each, micro);
                }
            }
        }
        if (!in_.recipe.runs(SweepKind::reverse)) return;
        for (int micro = 0; micro < micro_count_; ++micro) visit({0, true}, micro);
        for (int block = blocks_ - 1; block >= 0; --block) finish_gradients(block);
    }

    void pass(const Visit& visit, const BlockWeights& weights, int micro) {
        if (visit.reverse)
            reverse(visit.block, weights, micro);
        else
            forward(visit.block, weights, micro);
    }

    void forward(int block, const BlockWeights& weights, int micro) {
        const bool is_head = block == blocks_ - 1;
        const bool keep = in_.recipe.runs(SweepKind::reverse) && !in_.plan.recompute;
        const int id = builder_.segment(builder_.block(block), keep ? SegmentKind::forward_save : SegmentKind::forward);
        const Segment& segment = builder_.segment_at(id);
        RunTask task{.segment = id, .block = block, .micro = micro};
        std::vector<BufferUse> uses;
        Activation& here = activations_[at(block)][at(micro)];
        bind(task, uses, Region::input, here.input, false);
        if (segment.region_bytes(Region::saved) > 0) {
            here.saved =
                builder_.buffer(name(block, micro, "saved"), Owner::activations, segment.region_bytes(Region::saved));
            bind(task, uses, Region::saved, here.saved, true);
        }
        const BufferId out = builder_.buffer(name(block, micro, "out"), is_head ? Owner::staging : Owner::boundaries,
                                             segment.region_bytes(Region::output));
        bind(task, uses, Region::output, out, true);
        if (is_head)
            builder_.schedule().outputs[at(micro)] = {out, 0};
        else
            activations_[at(block + 1)][at(micro)].input = out;
        builder_.run(std::move(task), weights, std::move(uses));
    }

    void reverse(int block, const BlockWeights& weights, int micro) {
        // The head computes its loss and gradient in one go, from its input alone.
        const bool is_head = block == blocks_ - 1;
        const bool kept = !is_head && !in_.plan.recompute;
        const int id =
            builder_.segment(builder_.block(block), kept ? SegmentKind::reverse : SegmentKind::reverse_recompute);
        const Segment& segment = builder_.segment_at(id);
        RunTask task{.segment = id, .block = block, .micro = micro};
        std::vector<BufferUse> uses;
        Activation& here = activations_[at(block)][at(micro)];
        bind(task, uses, Region::input, here.input, false);
        bind(task, uses, Region::saved, here.saved, false);
        bind(task, uses, Region::grad_output, here.gradient, true);
        if (segment.region_bytes(Region::output) > 0) {
            const BufferId loss =
                builder_.buffer(name(block, micro, "loss"), Owner::staging, segment.region_bytes(Region::output));
            bind(task, uses, Region::output, loss, true);
            builder_.schedule().outputs[at(micro)] = {loss, 0};
        }
        if (block > 0) {
            BufferId gradient = here.gradient;
            if (!segment.gradient_in_place) {
                gradient = builder_.buffer(name(block, micro, "gradient"), Owner::boundaries,
                                           segment.region_bytes(Region::grad_input));
                bind(task, uses, Region::grad_input, gradient, true);
            }
            activations_[at(block - 1)][at(micro)].gradient = gradient;
        }
        if (in_.recipe.on_gradient == GradientRule::accumulate) bind_gradients(block, task, uses);
        builder_.run(std::move(task), weights, std::move(uses));
    }

    void bind(RunTask& task, std::vector<BufferUse>& uses, Region region, BufferId buffer, bool write) {
        if (buffer == kNoBuffer || builder_.segment_at(task.segment).region_bytes(region) == 0) return;
        task.regions[at(region)] = {buffer, 0};
        uses.push_back({buffer, write});
    }

    void bind_gradients(int block, RunTask& task, std::vector<BufferUse>& uses) {
        make_gradient_buffers(block);
        for (const int param : in_.model.blocks[at(block)].params) {
            if (!in_.model.params[at(param)].trainable) {
                task.gradients.push_back({});
                task.first_gradient.push_back(0);
                continue;
            }
            const BufferSlice& slice = gradient_[at(param)];
            task.gradients.push_back(slice);
            task.first_gradient.push_back(written_[at(param)] ? 0 : 1);
            written_[at(param)] = true;
            const auto same = [&](const BufferUse& use) { return use.buffer == slice.buffer; };
            if (std::none_of(uses.begin(), uses.end(), same)) uses.push_back({slice.buffer, true});
        }
    }

    // In memory: slices of the persistent buffer. On disk: a buffer for the parameters that end with this block, and
    // one of its own for a parameter that an earlier block will add to.
    void make_gradient_buffers(int block) {
        std::vector<int> together;
        for (const int param : in_.model.blocks[at(block)].params) {
            BufferSlice& slice = gradient_[at(param)];
            if (slice.buffer != kNoBuffer || !in_.model.params[at(param)].trainable) continue;
            if (in_.plan.gradients == Home::memory)
                slice = {in_.ids.gradients, in_.ids.word_offsets[at(param)]};
            else if (last_user_[at(param)] == block)
                together.push_back(param);
            else
                slice = {builder_.buffer(in_.model.params[at(param)].name + ".gradient", Owner::gradients,
                                         gradient_bytes(param)),
                         0};
        }
        if (together.empty()) return;
        int64_t end = 0;
        for (const int param : together) {
            gradient_[at(param)].offset = end;
            end += gradient_bytes(param);
        }
        const BufferId buffer = builder_.buffer(builder_.block(block).name + ".gradients", Owner::gradients, end);
        for (const int param : together) gradient_[at(param)].buffer = buffer;
    }

    int64_t gradient_bytes(int param) const { return aligned_bytes(in_.model.params[at(param)].numel(), 4); }

    // Gradients that no earlier block adds to are complete: into the norm, and to the disk where they live there.
    void finish_gradients(int block) {
        if (in_.recipe.on_gradient != GradientRule::accumulate) return;
        std::map<BufferId, std::vector<MovePiece>> spills;
        for (const int param : in_.model.blocks[at(block)].params) {
            if (last_user_[at(param)] != block || !in_.model.params[at(param)].trainable) continue;
            const BufferSlice& slice = gradient_[at(param)];
            if (in_.recipe.needs_grad_norm) builder_.reduce({param, slice});
            for (const ChunkSpan& chunk : chunks_of(in_.model, param))
                spills[slice.buffer].push_back({param, chunk.first, chunk.count, slice.offset + chunk.first * 4});
        }
        if (in_.plan.gradients == Home::memory) return;
        for (auto& [buffer, pieces] : spills) builder_.move({true, DiskPlace::gradient, buffer, std::move(pieces)});
    }

    // Chunks that travel together: up to kChunkElements of neighbours in the store.
    std::vector<std::vector<ChunkSpan>> update_groups() const {
        std::vector<std::vector<ChunkSpan>> groups;
        int64_t elements = kChunkElements;
        for (const int param : store_order(in_.model)) {
            if (!in_.model.params[at(param)].trainable) continue;
            for (const ChunkSpan& chunk : chunks_of(in_.model, param)) {
                if (elements + chunk.count > kChunkElements) groups.emplace_back(), elements = 0;
                groups.back().push_back(chunk);
                elements += chunk.count;
            }
        }
        return groups;
    }

    struct Staged {
        BufferId weights = kNoBuffer, state = kNoBuffer, gradients = kNoBuffer;
        std::vector<int64_t> weight_at, state_at, gradient_at;  // by chunk of the group
    };

    void write_updates() {
        const auto groups = update_groups();
        std::vector<Staged> staged;
        for (size_t index = 0; index < groups.size(); ++index) {
            while (staged.size() < std::min(groups.size(), index + 1 + at(in_.plan.read_ahead)))
                staged.push_back(stage(groups[staged.size()], staged.size()));
            for (size_t chunk = 0; chunk < groups[index].size(); ++chunk)
                update(groups[index][chunk], staged[index], chunk);
            write_back(groups[index], staged[index]);
        }
    }

    Staged stage(const std::vector<ChunkSpan>& group, size_t index) {
        Staged out;
        const auto read = [&](DiskPlace place, Owner owner, std::string_view what, std::vector<int64_t>& offsets,
                              const std::function<int64_t(const ChunkSpan&)>& bytes) {
            MoveTask task{.place = place};
            int64_t end = 0;
            for (const ChunkSpan& chunk : group) {
                offsets.push_back(end);
                task.pieces.push_back({chunk.param, chunk.first, chunk.count, end});
                end += bytes(chunk);
            }
            task.buffer = builder_.buffer(fmt::format("update.{}.{}", index, what), owner, end);
            const BufferId id = task.buffer;
            builder_.move(std::move(task));
            return id;
        };
        if (in_.plan.weights == Home::disk) {
            out.weights =
                read(DiskPlace::weight, Owner::weights, "weights", out.weight_at, [&](const ChunkSpan& chunk) {
                    return aligned_bytes(chunk.count, weight_bytes(in_.model.params[at(chunk.param)]));
                });
        }
        if (in_.plan.state == Home::disk) {
            out.state = read(DiskPlace::state, Owner::state, "state", out.state_at, [&](const ChunkSpan& chunk) {
                return round_up(state_sections(in_.recipe, chunk.count).back(), kParamAlignment);
            });
        }
        if (in_.plan.gradients == Home::disk) {
            out.gradients = read(DiskPlace::gradient, Owner::gradients, "gradients", out.gradient_at,
                                 [](const ChunkSpan& chunk) { return aligned_bytes(chunk.count, 4); });
        }
        return out;
    }

    void update(const ChunkSpan& chunk, const Staged& staged, size_t index) {
        UpdateTask task{.param = chunk.param, .first = chunk.first, .count = chunk.count};
        const int64_t two = in_.ids.weight_offsets[at(chunk.param)] + chunk.first * 2;
        const int64_t four = in_.ids.word_offsets[at(chunk.param)] + chunk.first * 4;
        task.hi = staged.weights == kNoBuffer ? BufferSlice{in_.ids.weights, two}
                                              : BufferSlice{staged.weights, staged.weight_at[index]};
        if (staged.state == kNoBuffer) {
            task.lo = {in_.ids.low, two};
            for (const BufferId state : in_.ids.state) task.state.push_back({state, four});
        } else {
            const std::vector<int64_t> sections = state_sections(in_.recipe, chunk.count);
            task.lo = {staged.state, staged.state_at[index]};
            for (size_t s = 0; s < in_.recipe.state.size(); ++s)
                task.state.push_back({staged.state, staged.state_at[index] + sections[s + 1]});
        }
        task.gradient = staged.gradients == kNoBuffer ? BufferSlice{in_.ids.gradients, four}
                                                      : BufferSlice{staged.gradients, staged.gradient_at[index]};
        builder_.update(std::move(task));
    }

    // State on disk is written to the version that is not current, and the weights with it: a commit covers both.
    void write_back(const std::vector<ChunkSpan>& group, const Staged& staged) {
        if (staged.state == kNoBuffer) return;
        MoveTask weights{.to_disk = true,
                         .place = DiskPlace::weight,
                         .buffer = staged.weights == kNoBuffer ? in_.ids.weights : staged.weights};
        MoveTask state{.to_disk = true, .place = DiskPlace::state, .buffer = staged.state};
        for (size_t index = 0; index < group.size(); ++index) {
            const ChunkSpan& chunk = group[index];
            const int64_t offset = staged.weights == kNoBuffer
                                       ? in_.ids.weight_offsets[at(chunk.param)] + chunk.first * 2
                                       : staged.weight_at[index];
            weights.pieces.push_back({chunk.param, chunk.first, chunk.count, offset});
            state.pieces.push_back({chunk.param, chunk.first, chunk.count, staged.state_at[index]});
        }
        builder_.move(std::move(weights));
        builder_.move(std::move(state));
    }

    std::string name(int block, int micro, std::string_view what) const {
        return fmt::format("{}.{}.{}", builder_.block(block).name, micro, what);
    }

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    int blocks_;
    int micro_count_;
    std::vector<std::vector<Activation>> activations_;  // [block][micro]
    std::vector<BufferSlice> gradient_;                 // by parameter
    std::vector<bool> written_;                         // by parameter: some contribution was scheduled
    std::vector<int> last_user_;                        // by parameter: the last block of reverse that adds to it
};

}  // namespace

Schedule lower_train(const LowerInput& input, const ScheduleRequest& request) {
    ScheduleBuilder builder(input, request);
    TrainLowering(builder).write();
    return builder.finish();
}

}  // namespace windlass
