// space.h: what a search may turn, and the plan that a choice describes.
//
// A choice is one number a knob. Homes of weights, state and gradients are shares of the blocks, spread evenly over the
// depth: some are whole on the device; of the others some live near (in memory), the rest far.
// What becomes of saved values goes by one ranking of each program's values, seconds saved for a byte: the first `keep`
// stay on the device, the next `offload` wait in host memory, the next `spill` on disk, and the rest is computed again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "schedule/lower.h"
#include "schedule/machine.h"
#include "schedule/plan.h"

namespace windlass {

enum class Knob : uint8_t {
    resident,      // sixteenths of the blocks that are whole on the device, updated there
    held_weights,  // eighths of the blocks whose weights stay on the device, wherever they are updated
    weights,       // eighths near, of the others
    state,         // eighths near
    gradients,     // eighths near
    update,        // UpdateTime
    deferred,      // eighths of the blocks whose update is deferred, where the others guess
    keep,          // values of a block
    offload,       // values of a block
    spill,         // values of a block
    block_input,   // Home
    cache,         // Home
    order,         // MicroOrder
    read_ahead,
    update_ahead,
    group_chunks,
    host_threads,
    upload_ahead,
    one_probe,        // 1: points one after the other
    device_groups,    // Plan::device_groups
    writeback_steps,  // steps from one write-back to the next; 0 is 1
};
inline constexpr int kKnobs = 21;
inline constexpr int kShares = 8;
inline constexpr int kResidentShares = 16;  // of Knob::resident

using Choice = std::array<int, kKnobs>;
inline int& at(Choice& choice, Knob knob) {
    return choice[static_cast<size_t>(knob)];
}
inline int at(const Choice& choice, Knob knob) {
    return choice[static_cast<size_t>(knob)];
}

struct Space {
    Plan base;  // policy, device, store; `threads` of all the machine's processors
    Home near = Home::device, far = Home::device;
    std::array<std::vector<int>, kKnobs> values;  // the one that takes the least memory first

    std::vector<int>& of(Knob knob) { return values[static_cast<size_t>(knob)]; }
    const std::vector<int>& of(Knob knob) const { return values[static_cast<size_t>(knob)]; }
    Choice leanest() const;
    Choice middle() const;
    // But for updates that are under way and the size of their groups, which are in the middle: more gains little.
    Choice richest() const;
    // The first of the choices that describe the same plan: keeps no values that a block does not have, and defers no
    // update if none is speculative.
    Choice canonical(Choice choice) const;
    int64_t size() const;
    // What is left of it where all saved values are computed again; all of it where that is not among its choices.
    Space recomputing() const;
};

// A space for each share of blocks that are whole on the device. What such a share takes of the one memory it spares in
// the other; so it is no knob of a search, whose first choice takes the least of both.
std::vector<Space> by_residence(const Space& space);

// What is left to turn where there is no backward pass: nothing waits for one, and updates are the next forward's.
// `writeback_steps`: steps from one write-back to the next; 0: to be chosen.
Space forward_only(Space space, const TrainedModel& model, const Recipe& recipe, int writeback_steps);

// What is left to turn if a block's gradients are used up right after its backward: they wait nowhere, and no update is
// speculative or deferred.
Space at_once(Space space);

// Saved values of each program of a model, the most seconds saved for a byte first.
using SavedRanks = std::map<const Program*, std::vector<int>>;
SavedRanks rank_saved(const TrainedModel& model, const ScheduleRequest& largest, DeviceKind device,
                      const Numerics& numerics, const Machine& machine);
// The most values that a block of it has.
int most_saved(const SavedRanks& ranks);

// The programs of a model's blocks; with a number of blocks, those of a model with as many, made of the same layers.
std::vector<const Program*> programs_of(const ModelSpec& model);
std::vector<const Program*> programs_of(const ModelSpec& model, int blocks);

Plan plan_of(const Space& space, const Choice& choice, const SavedRanks& ranks,
             const std::vector<const Program*>& programs);
// n: a plan treats blocks that are n apart alike.
int period_of(const Choice& choice);

// Whether this block is among `share` of `shares` equal parts of them, evenly spread.
bool in_share(int block, int share, int shares = kShares);

}  // namespace windlass
