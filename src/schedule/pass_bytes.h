// pass_bytes.h: memory that the passes of a training step take, whatever else its schedule does.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "method/trained_model.h"
#include "schedule/lower.h"
#include "schedule/plan.h"

namespace windlass {

// The first block, in the order of forward, that trains anything: what is before it keeps nothing and goes forward
// only. 0 if nothing trains.
int first_trained_block(const TrainedModel& model);
// By the weights of the block's program: whether they train.
std::vector<uint8_t> trainable_of(const TrainedModel& model, const Block& block);

// Of many plans of one model, without lowering them. Outlived by what it is made with.
class PassBytes {
  public:
    PassBytes(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics,
              const ScheduleRequest& request);

    // By kind of tier, in bytes: no more than are alive when the backward passes begin. Then all that forward left is
    // in memory, and next to it what one block's backward computes with. 0 without a backward pass.
    std::array<int64_t, kTierKinds> least(const Plan& plan);

  private:
    std::array<int64_t, kTierKinds> waiting(const Plan& plan) const;
    int64_t backward(const Plan& plan, int block);

    const TrainedModel& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const ScheduleRequest request_;
    const int first_, head_;                       // blocks that go backward
    std::vector<std::vector<uint8_t>> trainable_;  // by block, and by its program's weights
    std::vector<bool> is_alike_;                   // by block: but for its plan it leaves what the block before it does
    // Of the work of a block's backward, by all that it depends on: the block, threads, and what is kept.
    std::map<std::tuple<int, int, bool, std::vector<SaveChoice>>, int64_t> work_;
};

}  // namespace windlass
