#include "schedule/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace windlass {
namespace {

std::span<const BlockPlan> blocks_of(const Plan& plan) {
    return plan.blocks.empty() ? std::span(&plan.common, 1) : plan.blocks;
}

// "weights on disk", "weights on disk (5 of 24 blocks in host memory)"
template <typename T>
std::string spread(const Plan& plan, std::string_view what, T BlockPlan::*member, std::string_view (*name)(T)) {
    const std::span<const BlockPlan> blocks = blocks_of(plan);
    std::array<size_t, 4> count{};
    for (const BlockPlan& block : blocks) ++count[static_cast<size_t>(block.*member)];
    const size_t most = static_cast<size_t>(std::max_element(count.begin(), count.end()) - count.begin());
    const bool is_all_there = std::ranges::all_of(
        blocks, [](const BlockPlan& block) { return block.weights == Home::device && block.state == Home::device; });
    const auto name_of = [&](size_t value) {
        const std::string_view text = name(static_cast<T>(value));
        return !is_all_there && plan.own_memory() && text == home_name(Home::device) ? "on the device" : text;
    };
    std::string text = fmt::format("{} {}", what, name_of(most));
    for (size_t other = 0; other < count.size(); ++other) {
        if (other != most && count[other] > 0)
            text += fmt::format(" ({} of {} blocks {})", count[other], blocks.size(), name_of(other));
    }
    return text;
}

}  // namespace

bool Plan::any(UpdateTime time) const {
    return std::ranges::any_of(blocks_of(*this), [time](const BlockPlan& block) { return block.update == time; });
}

bool Plan::updates_apart() const {
    return any(UpdateTime::in_backward) || any(UpdateTime::next_forward) || any(UpdateTime::at_once);
}

bool Plan::any_recompute() const {
    return std::ranges::any_of(blocks_of(*this), [](const BlockPlan& block) {
        return block.recompute || std::count(block.saved.begin(), block.saved.end(), SaveChoice::recompute) > 0;
    });
}

std::string_view home_name(Home home) {
    static constexpr std::array<std::string_view, 3> kNames = {"in memory", "in host memory", "on disk"};
    return kNames[static_cast<size_t>(home)];
}

std::string_view update_time_name(UpdateTime time) {
    static constexpr std::array<std::string_view, 4> kNames = {"after backward", "in backward", "in the next forward",
                                                               "after each block's backward"};
    return kNames[static_cast<size_t>(time)];
}

std::string describe_placement(const Plan& plan) {
    return fmt::format("{}, {}, {}", spread(plan, "weights", &BlockPlan::weights, home_name),
                       spread(plan, "state", &BlockPlan::state, home_name),
                       plan.any(UpdateTime::at_once) ? "gradients of a block at a time"
                                                     : spread(plan, "gradients", &BlockPlan::gradients, home_name));
}

std::string describe_forward_only(const Plan& plan) {
    std::string text = spread(plan, "weights", &BlockPlan::weights, home_name) + ", updated when fetched";
    if (plan.writeback_steps > 1) text += fmt::format(", written back each {} steps", plan.writeback_steps);
    return text + (plan.one_probe ? ", probed one point at a time" : "");
}

std::string describe_updates(const Plan& plan) {
    const std::string text = spread(plan, "updates", &BlockPlan::update, update_time_name);
    if (plan.device_groups == 0) return text;
    return text + fmt::format(", one of {} groups on the device", plan.device_groups);
}

std::string describe_saved(const Plan& plan) {
    std::array<int64_t, 4> count{};
    for (const BlockPlan& block : plan.blocks) {
        for (const SaveChoice choice : block.saved) ++count[static_cast<size_t>(choice)];
    }
    const int64_t all = count[0] + count[1] + count[2] + count[3];
    if (all == 0) return plan.any_recompute() ? "activations recomputed" : "activations kept";
    static constexpr std::array<std::string_view, 4> kWords = {"kept", "in host memory", "on disk", "recomputed"};
    std::string text = fmt::format("of {} activations", all);
    for (size_t choice = 0; choice < count.size(); ++choice) {
        if (count[choice] > 0) text += fmt::format(" {} {},", count[choice], kWords[choice]);
    }
    text.pop_back();
    return text;
}

}  // namespace windlass
