#include <algorithm>
#include <optional>

#include "base/index.h"
#include "schedule/lower_buffers.h"
#include "schedule/lower_updates.h"
#include "schedule/pass_bytes.h"

namespace windlass {
namespace {

// A training step. Contributions to a gradient come in one canonical order under every plan: blocks from the last to
// the first, and within a block micro-batches in ascending order.
class TrainLowering {
  public:
    // Streams differ in where memory has a group's weights and gradient. Deferred and certain updates find gradients
    // where the plan holds them; the others may take the buffers of this step, too.
    explicit TrainLowering(ScheduleBuilder& builder)
        : builder_(builder),
          in_(builder.in()),
          blocks_(static_cast<int>(in_.model.blocks.size())),
          first_trained_(first_trained_block(in_.model)),
          micro_batches_(builder.schedule().micro_batches),
          gradients_(builder),
          norm_gradients_(builder, /*for_norm=*/true),
          activations_(builder),
          deferred_(builder,
                    {.weights = [this](int param) { return weights_of(param); },
                     .gradient = [this](int param, int64_t first) { return in_.held_gradient(param, first); }}),
          speculative_(builder,
                       {.weights = [this](int param) { return weights_of(param); },
                        .gradient = [this](int param, int64_t first) { return gradients_.in_memory(param, first); },
                        .speculative = in_.recipe.needs_norm()}),
          at_once_(builder,
                   {.weights = [this](int param) { return weights_of(param); },
                    .gradient = [this](int param, int64_t first) { return gradients_.in_memory(param, first); }}),
          certain_(builder,
                   {.weights = [this](int param) { return in_.place(param).weights; },
                    .gradient = [this](int param, int64_t first) { return in_.held_gradient(param, first); }}) {
        landed_.assign(at(blocks_), false);
        for (int block = 0; block < blocks_; ++block) {
            if (in_.plan.of(block).update == UpdateTime::next_forward) last_deferred_ = block;
        }
        builder_.schedule().outputs.assign(at(micro_batches_), {});
    }

    void write() {
        if (in_.plan.order == MicroOrder::layer_first)
            write_layer_first();
        else
            write_micro_batch_first();
        speculative_.drain();
        at_once_.drain();
        // A pass for the norm has decided already, before the pass that updates.
        if (!in_.recipe.has_norm_pass()) decide(Stage::on_norm);
        for (int block = 0; block < blocks_; ++block) {
            builder_.arrive(block);
            add_updates(certain_, UpdateTime::after_backward, block);
        }
        certain_.drain();
        decide(Stage::at_end);
    }

  private:
    struct Passed {
        size_t index = 0;  // of the visit
        int micro = 0;
    };

    std::vector<Visit> visits() const {
        std::vector<Visit> list;
        // The head has no visit forward: it computes its loss in backward, from its input.
        for (int block = 0; block < blocks_ - 1; ++block) list.push_back({block, false});
        for (const bool updates : {false, true}) {
            if (!updates && !in_.recipe.has_norm_pass()) continue;
            for (int block = blocks_ - 1; block >= first_trained_; --block) list.push_back({block, true, updates});
        }
        return list;
    }

    // Reads begin read_ahead blocks early; what then happens on the way, updates and the copy up, at most one early.
    // What a pass leaves goes down during the next one where reads begin three blocks early: if its buffer ended with
    // the pass, the next one's could have its place and would wait for the copy. That takes room for both.
    void write_layer_first() {
        const size_t early = at(in_.plan.read_ahead), late = in_.plan.own_memory() ? std::min<size_t>(early, 1) : 0;
        const std::vector<Visit> list = visits();
        std::vector<BlockWeights> fetched;
        size_t ready = 0;
        const bool leaves_late = in_.plan.own_memory() && in_.plan.read_ahead >= 3;
        std::optional<Passed> passed;
        const auto leave = [&] {
            if (passed) finish_pass(list[passed->index], fetched[passed->index], passed->micro);
            passed.reset();
        };
        for (size_t index = 0; index < list.size(); ++index) {
            builder_.arrive(list[index].block);
            while (fetched.size() < std::min(list.size(), index + 1 + early) && is_current(list[fetched.size()]))
                fetched.push_back(begin_fetch(list[fetched.size()]));
            for (; ready < std::min(fetched.size(), index + 1 + late); ++ready)
                finish_fetch(list[ready], fetched[ready]);
            for (int micro = 0; micro < micro_batches_; ++micro) {
                prefetch_activations(list, index, micro);
                pass(list[index], fetched[index], micro);
                complete(list[index], micro);
                leave();
                passed = {index, micro};
                if (!leaves_late) leave();
            }
        }
        leave();
    }

    // Each micro-batch goes all the way; only the first block's backward waits for all of them, so that a table tied
    // to the head gets its contributions in the canonical order.
    void write_micro_batch_first() {
        const auto visit = [&](const Visit& each, int micro) {
            builder_.arrive(each.block);
            BlockWeights weights;
            // Deferred updates are done once, on the way of the first micro-batch.
            if (micro == 0) {
                weights = begin_fetch(each);
                finish_fetch(each, weights);
            } else {
                weights = builder_.read_weights(builder_.block(each.block));
                builder_.upload(builder_.block(each.block), weights);
                builder_.convert(each.block, weights);
            }
            activations_.bring(each, micro);
            pass(each, weights, micro);
            spill(each, micro);
        };
        for (int micro = 0; micro < micro_batches_; ++micro) {
            for (const Visit& each : visits()) {
                if (each.block != 0 || !each.backward) visit(each, micro);
            }
        }
        for (int micro = 0; first_trained_ == 0 && micro < micro_batches_; ++micro) visit({0, true}, micro);
        for (int block = blocks_ - 1; block >= first_trained_; --block) {
            builder_.arrive(block);
            finish_gradients(block, builder_.read_weights(builder_.block(block)));
        }
    }

    // The update that the step before deferred is done when a block is first fetched, before its weights go up.
    bool updates_on_arrival(const Visit& visit) const {
        // The first fetch of the head is that of its backward.
        const bool first = !visit.backward || visit.block == blocks_ - 1;
        return first && in_.plan.of(visit.block).update == UpdateTime::next_forward;
    }
    // No read may precede the update of its weights: it would see those of the step before.
    bool is_current(const Visit& visit) const {
        for (const int param : in_.model.blocks[at(visit.block)].params) {
            // A tied table is read by two blocks, and updated with the one that it is at home in.
            const int home = in_.param(param).spec.block;
            const bool is_held = in_.plan.of(home).update == UpdateTime::next_forward;
            const bool is_first = home == visit.block && updates_on_arrival(visit);
            if (is_held && !is_first && !landed_[at(home)]) return false;
        }
        return true;
    }
    BlockWeights begin_fetch(const Visit& visit) {
        BlockWeights weights = builder_.read_weights(builder_.block(visit.block));
        if (updates_on_arrival(visit)) {
            builder_.set_when(When::deferred);
            updating_ = &weights;
            add_updates(deferred_, UpdateTime::next_forward, visit.block);
            builder_.set_when(When::always);
        }
        return weights;
    }
    void finish_fetch(const Visit& visit, BlockWeights& weights) {
        if (updates_on_arrival(visit)) {
            builder_.set_when(When::deferred);
            deferred_.drain_block(visit.block);
            landed_[at(visit.block)] = true;
            // Every deferred update has its place in the list by now, so the step before may be committed.
            if (visit.block == last_deferred_) builder_.mark();
            builder_.set_when(When::always);
        }
        builder_.upload(builder_.block(visit.block), weights);
        builder_.convert(visit.block, weights);
    }

    // Memory that holds the weights which an update changes: for good, or since the block was read for a pass.
    BufferSlice weights_of(int param) const {
        const std::vector<int>& params = in_.model.blocks[at(in_.param(param).spec.block)].params;
        const size_t index = static_cast<size_t>(std::find(params.begin(), params.end(), param) - params.begin());
        return updating_->host_hi[index];
    }

    void add_updates(UpdateStream& stream, UpdateTime time, int block) {
        if (in_.plan.of(block).update != time) return;
        for (ChunkGroup& group : in_.groups(block)) stream.add(std::move(group));
    }

    void finish_gradients(int block, const BlockWeights& weights) {
        gradients_.finish(block);
        updating_ = &weights;
        add_updates(speculative_, UpdateTime::in_backward, block);
        if (!in_.recipe.uses_gradients_at_once()) return;
        // The losses are there before anything is changed.
        if (block == blocks_ - 1) decide(Stage::on_losses);
        add_updates(at_once_, UpdateTime::at_once, block);
    }
    // Of a backward pass that finds the norm. The last block's is after all squares, and before all updates.
    void finish_norm(int block) {
        norm_gradients_.finish(block);
        if (block == first_trained_) decide(Stage::on_norm);
    }

    void decide(Stage stage) {
        if (in_.recipe.decision(stage) != nullptr) builder_.decide(stage);
    }

    // While a pass computes, what the next one needs of spilled activations is on its way.
    void prefetch_activations(const std::vector<Visit>& list, size_t index, int micro) {
        activations_.bring(list[index], micro);
        const bool last = micro + 1 == micro_batches_;
        if (!last)
            activations_.bring(list[index], micro + 1);
        else if (index + 1 < list.size())
            activations_.bring(list[index + 1], 0);
    }

    void spill(const Visit& visit, int micro) {
        if (!visit.backward && visit.block >= first_trained_) activations_.spill(visit.block, micro);
    }

    // What sums are rounded to is there for the way down at once, however late what a pass leaves is let go of.
    void complete(const Visit& visit, int micro) {
        const bool rounds = in_.numerics.gradient_format != GradientFormat::f32 || in_.plan.device_groups > 0;
        if (rounds && visit.backward && visit.updates && micro + 1 == micro_batches_) gradients_.complete(visit.block);
    }

    // What a pass leaves, once the block is done.
    void finish_pass(const Visit& visit, const BlockWeights& weights, int micro) {
        spill(visit, micro);
        if (!visit.backward || micro + 1 < micro_batches_) return;
        if (visit.updates)
            finish_gradients(visit.block, weights);
        else
            finish_norm(visit.block);
    }

    void pass(const Visit& visit, const BlockWeights& weights, int micro) {
        if (visit.backward)
            backward(visit, weights, micro);
        else
            forward(visit.block, weights, micro);
    }

    // The head computes its loss and gradient in one go, from its input alone: it keeps nothing.
    int segment(int block, bool backward) {
        ScheduleBuilder::SegmentKey key{.backward = backward};
        const BlockPlan& plan = in_.plan.of(block);
        // Gradients of inputs below the first block that trains would be computed for nothing.
        if (backward) key.passes_gradient_on = block > first_trained_;
        // Blocks before the first that trains never go backward, so they keep nothing.
        if (block != blocks_ - 1 && block >= first_trained_) {
            key.save = !plan.recompute;
            key.saved = plan.saved;
        }
        return builder_.segment(builder_.block(block), std::move(key));
    }

    // None yet. A run uses weights and gradients of each parameter, and a handful of other buffers.
    std::vector<BufferUse> room_for_uses(int block) const {
        constexpr size_t kOthers = 12;
        std::vector<BufferUse> uses;
        uses.reserve(2 * in_.model.blocks[at(block)].params.size() + kOthers);
        return uses;
    }

    void forward(int block, const BlockWeights& weights, int micro) {
        RunTask task{.segment = segment(block, false), .block = block, .micro = micro};
        std::vector<BufferUse> uses = room_for_uses(block);
        activations_.bind_forward(task, uses);
        builder_.run(std::move(task), weights, std::move(uses));
    }

    void backward(const Visit& visit, const BlockWeights& weights, int micro) {
        const int block = visit.block;
        RunTask task{.segment = segment(block, true), .block = block, .micro = micro};
        std::vector<BufferUse> uses = room_for_uses(block);
        activations_.bind_reverse(task, uses, block > first_trained_);
        (visit.updates ? gradients_ : norm_gradients_).bind(task, uses);
        builder_.run(std::move(task), weights, std::move(uses));
    }

    ScheduleBuilder& builder_;
    const LowerInput& in_;
    int blocks_;
    int first_trained_;
    int micro_batches_;
    GradientBuffers gradients_, norm_gradients_;
    ActivationBuffers activations_;
    UpdateStream deferred_, speculative_, at_once_, certain_;
    const BlockWeights* updating_ = nullptr;  // of the block whose updates are being added
    std::vector<bool> landed_;                // by block: the update that the step before deferred is scheduled
    int last_deferred_ = -1;                  // the last block in the order of forward whose update is deferred
};

}  // namespace

Schedule lower_train(const LowerInput& input, const ScheduleRequest& request) {
    ScheduleBuilder builder(input, request);
    TrainLowering(builder).write();
    return builder.finish();
}

}  // namespace windlass
