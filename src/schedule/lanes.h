// lanes.h: who works, and in whose memory: the lanes, tiers and buffers that tasks are about.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

// Who works: compute is the device, host the processor's share of the update, up and down the link between host and
// device. Of a kind there may be several, told apart by the index of their device or drive.
enum class LaneKind : uint8_t { compute, host, up, down, disk_read, disk_write };
inline constexpr int kLaneKinds = 6;
struct LaneId {
    LaneKind kind = LaneKind::compute;
    int index = 0;
    LaneId() = default;
    LaneId(LaneKind kind_in, int index_in = 0) : kind(kind_in), index(index_in) {}
    bool operator==(const LaneId&) const = default;
};
// Position of a kind in sums by kind, for reports.
inline size_t slot(LaneKind lane) {
    return static_cast<size_t>(lane);
}
std::string_view lane_name(LaneKind lane);
// One lane of each kind, in the order of the kinds: those of a device of this index, and of the machine that it is in.
std::vector<LaneId> lanes_beside(int device);
// Of these lanes the one of this kind: the device's own, or the machine's.
LaneId lane_beside(LaneKind kind, int device);
// An index into `lanes`.
int find_lane(std::span<const LaneId> lanes, LaneId lane);

// Whose memory a buffer is in. Where the device has none of its own, everything is in `device`.
enum class TierKind : uint8_t { device, host };
inline constexpr int kTierKinds = 2;
struct TierId {
    TierKind kind = TierKind::device;
    int index = 0;
    TierId() = default;
    TierId(TierKind kind_in, int index_in = 0) : kind(kind_in), index(index_in) {}
    bool operator==(const TierId&) const = default;
};
inline size_t slot(TierKind tier) {
    return static_cast<size_t>(tier);
}
std::string_view tier_name(TierKind tier);
// The memory of a device of this index, and the host's.
std::vector<TierId> tiers_beside(int device);
TierId tier_beside(TierKind kind, int device);
int find_tier(std::span<const TierId> tiers, TierId tier);

// Named owners: every byte of the arena belongs to one, and the plan prints them.
enum class MemoryTag : uint8_t {
    weights,
    probes,  // what is computed with instead of weights: perturbed, converted, directions
    low_halves,
    state,
    gradients,
    kept,  // what speculative updates overwrote, where no store has it
    activations,
    block_inputs,
    workspace,
    cache,
    staging
};
inline constexpr int kMemoryTags = 11;
std::string_view memory_tag_name(MemoryTag tag);

struct BufferSpec {
    std::string name;  // says what it holds: "work"; short, since planning makes millions
    MemoryTag tag = MemoryTag::workspace;
    int64_t bytes = 0;
    int tier = 0;    // index into ScheduleSet::tiers
    int block = -1;  // that it belongs to; -1: no single one
    int micro = -1;  // the same of a micro-batch
    // Filled by check:
    int64_t offset = -1;  // in its tier's arena
    int first = -1;       // first and last task that touch it; persistent buffers live always
    int last = -1;
};

// For messages: "work of block 3, micro-batch 0".
std::string buffer_text(const BufferSpec& buffer);

// Buffers [0, persistent count) of a ScheduleSet outlive a schedule; each schedule has its own from there on.
using BufferId = int;
inline constexpr BufferId kNoBuffer = -1;

struct BufferSlice {
    BufferId buffer = kNoBuffer;
    int64_t offset = 0;
};

}  // namespace windlass
