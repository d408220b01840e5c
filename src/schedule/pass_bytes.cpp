#include "schedule/pass_bytes.h"

#include <algorithm>

#include "base/index.h"
#include "model/pass.h"
#include "model/segment_writer.h"
#include "schedule/layout.h"
#include "schedule/lower_buffers.h"

namespace windlass {
namespace {

using BytesByHome = std::array<int64_t, 3>;

// Of one micro-batch: what a block's backward reads of its forward.
BytesByHome left_by(const Program& program, const std::vector<uint8_t>& trainable, const BlockPlan& plan,
                    const OpSize& size) {
    BytesByHome bytes{};
    const auto add = [&](Home home, size_t value) { bytes[at(home)] += slot_bytes(program.values[value].spec, size); };
    for (const int input : program.inputs) add(plan.block_input, at(input));
    const std::vector<Region> regions =
        plan.saved.empty() ? regions_of_saved(program, plan.recompute ? SaveChoice::recompute : SaveChoice::keep)
                           : regions_of_saved(program, trainable, plan.saved);
    for (size_t value = 0; value < regions.size(); ++value) {
        for (size_t kind = 0; kind < kSavedRegions.size(); ++kind) {
            if (regions[value] == kSavedRegions[kind]) add(kSavedHomes[kind], value);
        }
    }
    return bytes;
}

}  // namespace

int first_trained_block(const TrainedModel& model) {
    const auto trains = [&](int param) { return model.training[at(param)].trains; };
    const auto first = std::ranges::find_if(
        model.blocks, [&](const Block& block) { return std::ranges::any_of(block.params, trains); });
    return first == model.blocks.end() ? 0 : static_cast<int>(first - model.blocks.begin());
}

std::vector<uint8_t> trainable_of(const TrainedModel& model, const Block& block) {
    std::vector<uint8_t> trainable;
    for (const int param : block.params) trainable.push_back(model.training[at(param)].trains);
    return trainable;
}

PassBytes::PassBytes(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
                     const ScheduleRequest& request)
    : model_(model),
      recipe_(recipe),
      numerics_(numerics),
      request_(request),
      first_(first_trained_block(model)),
      head_(static_cast<int>(model.blocks.size()) - 1) {
    for (const Block& block : model.blocks) {
        std::vector<uint8_t> trainable = trainable_of(model, block);
        is_alike_.push_back(!trainable_.empty() && trainable == trainable_.back() &&
                            block.program == (&block - 1)->program);
        trainable_.push_back(std::move(trainable));
    }
}

std::array<int64_t, kTierKinds> PassBytes::least(const Plan& plan) {
    if (request_.kind != ScheduleRequest::Kind::train || !recipe_.runs(PassKind::backward)) return {};
    std::array<int64_t, kTierKinds> bytes = waiting(plan);
    int64_t most = 0;
    for (const int block : {head_ - 1, head_}) {
        if (block >= first_) most = std::max(most, backward(plan, block));
    }
    bytes[slot(TierKind::device)] += most;
    return bytes;
}

// The head computes its loss and its gradient in one go: it keeps nothing.
std::array<int64_t, kTierKinds> PassBytes::waiting(const Plan& plan) const {
    const OpSize size{.rows = request_.rows, .sequence_length = request_.sequence_length, .compute = numerics_.compute};
    BytesByHome bytes{}, all{};
    for (int block = first_; block < head_; ++block) {
        const BlockPlan& own = plan.of(block);
        const auto is_planned_alike = [&](const BlockPlan& before) {
            return own.block_input == before.block_input && own.recompute == before.recompute &&
                   own.saved == before.saved;
        };
        if (block == first_ || !is_alike_[at(block)] || !is_planned_alike(plan.of(block - 1)))
            bytes = left_by(*model_.blocks[at(block)].program, trainable_[at(block)], own, size);
        for (size_t home = 0; home < bytes.size(); ++home) all[home] += bytes[home];
    }
    const int64_t micro_batches = plan.order == MicroOrder::layer_first ? request_.micro_batches : 1;
    std::array<int64_t, kTierKinds> waiting{};
    waiting[slot(TierKind::device)] = micro_batches * all[at(Home::device)];
    waiting[slot(plan.own_memory() ? TierKind::host : TierKind::device)] += micro_batches * all[at(Home::host)];
    return waiting;
}

// Its work, its weights where they went up, and its gradients where they are not summed at home.
int64_t PassBytes::backward(const Plan& plan, int block) {
    const Block& each = model_.blocks[at(block)];
    const BlockPlan& own = plan.of(block);
    const bool saves = block != head_ && !own.recompute;
    const std::vector<SaveChoice> saved = block == head_ ? std::vector<SaveChoice>() : own.saved;
    const auto [work, is_new] = work_.try_emplace({block, plan.threads, saves, saved});
    if (is_new) {
        const Segment segment = backward_pass(each.program, {.size = op_size(model_, numerics_, plan, request_),
                                                             .save = saves,
                                                             .want_grad_input = block > first_,
                                                             .trainable = trainable_[at(block)],
                                                             .choices = saved});
        work->second = segment.region_bytes(Region::work);
    }
    int64_t bytes = work->second;
    for (const int index : each.params) {
        const Param param = model_.param(index);
        const BlockPlan& home = plan.of(param.spec.block);
        if (plan.own_memory() && home.weights != Home::device) bytes += aligned_weight_bytes(param, param.numel());
        const bool stays = home.gradients == Home::device || (home.gradients == Home::host && !plan.own_memory());
        if (param.trains() && !stays) bytes += aligned_bytes(param.numel(), 4);
    }
    return bytes;
}

}  // namespace windlass
