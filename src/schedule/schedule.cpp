#include "schedule/schedule.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace windlass {

std::string_view memory_tag_name(MemoryTag tag) {
    static constexpr std::array<std::string_view, kMemoryTags> kNames = {
        "weights",         "probed weights", "master weights (low 16 bits)",
        "optimizer state", "gradients",      "versions kept for wrong speculations",
        "activations",     "block inputs",   "workspace",
        "cache",           "staging"};
    return kNames[static_cast<size_t>(tag)];
}

std::string_view lane_name(LaneKind lane) {
    static constexpr std::array<std::string_view, kLaneKinds> kNames = {"compute", "host",      "up",
                                                                        "down",    "disk read", "disk write"};
    return kNames[static_cast<size_t>(lane)];
}

LaneId lane_beside(LaneKind kind, int device) {
    const bool of_machine = kind == LaneKind::host || kind == LaneKind::disk_read || kind == LaneKind::disk_write;
    return {kind, of_machine ? 0 : device};
}

std::vector<LaneId> lanes_beside(int device) {
    std::vector<LaneId> lanes;
    for (int kind = 0; kind < kLaneKinds; ++kind) lanes.push_back(lane_beside(static_cast<LaneKind>(kind), device));
    return lanes;
}

std::string buffer_text(const BufferSpec& buffer) {
    std::string text = buffer.name;
    if (buffer.block >= 0) text += fmt::format(" of block {}", buffer.block);
    if (buffer.micro >= 0) text += fmt::format(", micro-batch {}", buffer.micro);
    return text;
}

int find_lane(std::span<const LaneId> lanes, LaneId lane) {
    const auto found = std::ranges::find(lanes, lane);
    WINDLASS_CHECK(found != lanes.end(), "there is no lane {} {}", lane_name(lane.kind), lane.index);
    return static_cast<int>(found - lanes.begin());
}

std::string_view tier_name(TierKind tier) {
    return tier == TierKind::device ? "device" : "host";
}

TierId tier_beside(TierKind kind, int device) {
    return {kind, kind == TierKind::host ? 0 : device};
}

std::vector<TierId> tiers_beside(int device) {
    return {tier_beside(TierKind::device, device), tier_beside(TierKind::host, device)};
}

int find_tier(std::span<const TierId> tiers, TierId tier) {
    const auto found = std::ranges::find(tiers, tier);
    WINDLASS_CHECK(found != tiers.end(), "there is no memory of {} {}", tier_name(tier.kind), tier.index);
    return static_cast<int>(found - tiers.begin());
}

LaneKind lane_of(MoveKind kind) {
    static constexpr std::array<LaneKind, 4> kLanes = {LaneKind::disk_read, LaneKind::disk_write, LaneKind::up,
                                                       LaneKind::down};
    return kLanes[static_cast<size_t>(kind)];
}

const BufferSpec& ScheduleSet::buffer(const Schedule& schedule, BufferId id) const {
    const size_t index = static_cast<size_t>(id);
    return index < persistent.size() ? persistent[index] : schedule.buffers[index - persistent.size()];
}

int64_t ScheduleSet::memory_bytes() const {
    return std::accumulate(arena_bytes.begin(), arena_bytes.end(), int64_t{0});
}

std::array<int64_t, kTierKinds> ScheduleSet::by_kind(const std::vector<int64_t>& bytes) const {
    std::array<int64_t, kTierKinds> sums{};
    for (size_t tier = 0; tier < tiers.size(); ++tier) sums[slot(tiers[tier].kind)] += bytes[tier];
    return sums;
}

int64_t ScheduleSet::activation_file_bytes() const {
    int64_t bytes = 0;
    for (const Schedule& schedule : schedules) bytes = std::max(bytes, schedule.activation_file_bytes);
    return bytes;
}

const Schedule* ScheduleSet::find(std::string_view name) const {
    for (const Schedule& schedule : schedules) {
        if (schedule.name == name) return &schedule;
    }
    return nullptr;
}

Demand& Demand::operator-=(const Demand& part) {
    flops -= part.flops;
    model_flops -= part.model_flops;
    noise -= part.noise;
    memory_bytes -= part.memory_bytes;
    up_bytes -= part.up_bytes;
    down_bytes -= part.down_bytes;
    disk_read_bytes -= part.disk_read_bytes;
    disk_write_bytes -= part.disk_write_bytes;
    return *this;
}

Demand total_demand(const Schedule& schedule) {
    return total_demand(schedule.tasks, schedule.writeback_steps);
}

Demand total_demand(std::span<const Task> tasks, int writeback_steps) {
    Demand sum;
    int64_t down_bytes = 0, disk_write_bytes = 0;  // each writeback_steps
    for (const Task& task : tasks) {
        if (writeback_steps > 1 && task.when == When::write_back) {
            down_bytes += task.demand.down_bytes;
            disk_write_bytes += task.demand.disk_write_bytes;
            continue;
        }
        sum.flops += task.demand.flops;
        sum.model_flops += task.demand.model_flops;
        sum.noise += task.demand.noise;
        sum.memory_bytes += task.demand.memory_bytes;
        sum.up_bytes += task.demand.up_bytes;
        sum.down_bytes += task.demand.down_bytes;
        sum.disk_read_bytes += task.demand.disk_read_bytes;
        sum.disk_write_bytes += task.demand.disk_write_bytes;
    }
    sum.down_bytes += down_bytes / writeback_steps;
    sum.disk_write_bytes += disk_write_bytes / writeback_steps;
    return sum;
}

Demand in_rounds(Demand demand, int64_t rounds) {
    const auto times = static_cast<double>(rounds);
    demand.flops *= times;
    demand.model_flops *= times;
    demand.noise *= times;
    demand.memory_bytes *= rounds;
    demand.up_bytes *= rounds;
    demand.disk_read_bytes *= rounds;
    return demand;
}

}  // namespace windlass
