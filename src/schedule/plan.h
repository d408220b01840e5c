// plan.h: where things live and when they move. A Plan only places and orders: it never changes a bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "model/saved.h"

namespace windlass {

// Where something lives while it is not used. If the device has no memory of its own (a machine without a GPU),
// `device` is the machine's memory and `host` is the same.
enum class Home : uint8_t { device, host, disk };

// layer_first: all micro-batches pass a block before the next block, so weights cross each link once a pass.
// micro_batch_first: each micro-batch makes its whole way, so activations of one are alive at a time; for weights that
// stay.
enum class MicroOrder : uint8_t { layer_first, micro_batch_first };

// When a parameter is updated. The clip factor is known when the last gradient is.
//   after_backward  after the norm: nothing overlaps, nothing is a guess
//   in_backward     as soon as its gradient is there, speculating that nothing is clipped; the version before stays
//                   current in the store, or, without one, is kept in memory next to the state: where the guess
//                   was wrong the update is done again from there. A recipe that needs no norm guesses nothing
//   next_forward    deferred, and done when the next step's forward pass first needs it ("defer")
//   at_once         as soon as its gradient is there, for good (Recipe::uses_gradients_at_once)
enum class UpdateTime : uint8_t { after_backward, in_backward, next_forward, at_once };

// Where a plan puts the regions of values that forward keeps (model/saved.h): the first stays on the device.
inline constexpr SaveChoice kKeepOnHost = SaveChoice::keep_second, kKeepOnDisk = SaveChoice::keep_third;

// One block's share of a plan. Its parameters are those whose home block it is.
//
// Where weights are on a device that has memory of its own, and state is not, the host updates a copy next to the state
// and sends it up: the placement of ZeRO-Offload and LSP-Offload.
struct BlockPlan {
    Home weights = Home::device;      // what passes read
    Home state = Home::device;        // moments and low halves
    Home gradients = Home::device;    // between their last contribution and the update
    Home block_input = Home::device;  // the block's input, between its forward and its backward
    Home cache = Home::device;        // keys and values of earlier tokens, between two calls of decoding
    UpdateTime update = UpdateTime::after_backward;
    bool recompute = false;         // keep the input only
    std::vector<SaveChoice> saved;  // instead, by saved_values of the block's program: what becomes of each

    bool operator==(const BlockPlan&) const = default;
};

struct Plan {
    std::string policy;  // the name of the policy that made it
    DeviceId device;
    int threads = 1;       // of the compute lane
    int host_threads = 0;  // of the host lane, for updates during compute; 0: the compute lane does them
    bool store = false;    // a working store on disk: every step writes it, and every committed step is a checkpoint
    MicroOrder order = MicroOrder::layer_first;
    int read_ahead = 1;    // blocks whose weights are under way besides the one in use
    int group_chunks = 1;  // chunks that are read, updated and written as one, if a block has as many
    // Where weights are probed and go up: blocks that are on the device, or on their way there, besides the one in use.
    // At most read_ahead of them.
    int upload_ahead = 0;
    // Where weights are probed: a pass's points one after the other, so that one probed copy of a block is there at a
    // time; random numbers are then drawn for each of them.
    bool one_probe = false;
    // Perturbed weights are written back, over the link and to disk, every writeback_steps. In between, fetched weights
    // are stale, and the missing updates are applied to them again.
    int writeback_steps = 1;
    int update_ahead = 1;  // chunk groups of the update whose state is under way besides the one in use
    // Where weights are on a device and their state is next to it: every k-th group of chunks is updated on the device,
    // to which its state goes up and from which it comes down (Deep Optimizer States); 0: none.
    int device_groups = 0;
    BlockPlan common;  // of every block, where `blocks` is empty
    std::vector<BlockPlan> blocks;

    const BlockPlan& of(int block) const { return blocks.empty() ? common : blocks[static_cast<size_t>(block)]; }
    // The device's memory is not the host's: copies are real.
    bool own_memory() const { return device.own_memory; }
    // Whether the plan, or a block of it, does this.
    bool any(UpdateTime time) const;
    bool updates_apart() const;  // elsewhere than after backward
    bool any_recompute() const;  // of anything at all
};

std::string_view home_name(Home home);
std::string_view update_time_name(UpdateTime time);
// "weights on disk, state on disk (2 of 12 blocks in host memory), ...": what a person needs to know of it.
std::string describe_placement(const Plan& plan);
// "weights in host memory, updated when fetched, probed one point at a time": of a plan whose weights are probed and
// where nothing else has a home.
std::string describe_forward_only(const Plan& plan);
// "updates in backward (4 of 24 blocks in the next forward)"
std::string describe_updates(const Plan& plan);
// "of 240 activations 100 kept, 40 on disk, 100 recomputed"
std::string describe_saved(const Plan& plan);

}  // namespace windlass
