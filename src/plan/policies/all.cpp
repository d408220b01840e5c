#include <algorithm>
#include <array>
#include <numeric>

#include "base/error.h"
#include "plan/policies/policies.h"

namespace windlass {
namespace {

constexpr int kGroupsMax = 64;  // of a block

std::vector<int> up_to(int last) {
    std::vector<int> values(static_cast<size_t>(last) + 1);
    std::iota(values.begin(), values.end(), 0);
    return values;
}

// The host's processors that may be spared for updates.
std::vector<int> host_thread_choices(const PlanRequest& request) {
    if (request.device.kind != DeviceKind::cpu) return {std::max(1, request.threads)};  // the device computes
    std::vector<int> choices;
    // Where the device has memory of its own, state in the host's needs a host lane.
    if (!request.device.own_memory) choices.push_back(0);
    for (int threads = 1; threads <= std::max(1, request.threads / 2); threads *= 2) choices.push_back(threads);
    return choices;
}

// What takes less memory is first.
std::vector<int> update_choices(const PlanRequest& request) {
    if (request.update_time) return {static_cast<int>(*request.update_time)};
    return {static_cast<int>(UpdateTime::after_backward), static_cast<int>(UpdateTime::next_forward),
            static_cast<int>(UpdateTime::in_backward)};
}

}  // namespace

std::span<const Policy* const> all_policies() {
    static constexpr std::array<const Policy*, 3> kAll = {&kInMemory, &kHostStream, &kThreeTier};
    return kAll;
}

Space common_space(const PlanRequest& request, const SpaceInput& input) {
    Space space;
    space.base = {.device = request.device, .threads = request.threads};
    space.values.fill({0});
    space.of(Knob::weights) = space.of(Knob::state) = space.of(Knob::gradients) = {kShares};
    space.of(Knob::block_input) = space.of(Knob::cache) = {static_cast<int>(Home::device)};
    space.of(Knob::order) = {static_cast<int>(MicroOrder::layer_first)};
    space.of(Knob::group_chunks) = {1};
    space.of(Knob::update) = update_choices(request);
    if (request.recompute == false)
        space.of(Knob::keep) = {input.saved_most};
    else if (!request.recompute)
        space.of(Knob::keep) = up_to(input.saved_most);
    return space;
}

void add_streaming(Space& space, const PlanRequest& request, const SpaceInput& input) {
    if (space.of(Knob::update).size() > 1) space.of(Knob::deferred) = {0, 2, 4};
    space.of(Knob::read_ahead) = {0, 1, 2, 3};
    space.of(Knob::update_ahead) = {0, 1, 2, 4, 8};
    space.of(Knob::host_threads) = host_thread_choices(request);
    // Groups of a large block are large too: a task for each of its chunks would cost more to plan than it brings.
    std::vector<int>& groups = space.of(Knob::group_chunks);
    groups.clear();
    for (int chunks = 1; chunks <= 64; chunks *= 4) {
        const int groups_a_block = input.block_chunks / chunks;
        if (groups_a_block <= kGroupsMax && (groups_a_block >= 2 || chunks == 1)) groups.push_back(chunks);
    }
    const bool decodes =
        std::ranges::any_of(request.schedules, [](const ScheduleRequest& each) { return each.cache_capacity > 0; });
    // What takes less memory is first.
    for (const Knob knob : {Knob::block_input, Knob::cache}) {
        std::vector<int>& homes = space.of(knob);
        if (knob == Knob::cache && !decodes) continue;
        if (request.device.own_memory) homes.insert(homes.begin(), static_cast<int>(Home::host));
        if (space.base.store) homes.insert(homes.begin(), static_cast<int>(Home::disk));
    }
    if (request.recompute) return;
    if (request.device.own_memory) space.of(Knob::offload) = up_to(input.saved_most);
    if (space.base.store) space.of(Knob::spill) = up_to(input.saved_most);
}

}  // namespace windlass
