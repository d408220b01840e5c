// arenas.h: the memory of a run: one pool a tier, from the device that the tier names.
//
// Work that is launched finds its buffers by leases (task_memory.h). The host reads and writes device memory through
// read() and write() alone, while no task has those bytes.
#pragma once

#include <memory>
#include <vector>

#include "run/devices.h"
#include "schedule/schedule.h"
#include "tier/pool.h"

namespace windlass {

class Arenas {
  public:
    // UserError(no_fit) where the system refuses.
    Arenas(const ScheduleSet& set, const Devices& devices) {
        for (size_t tier = 0; tier < set.tiers.size(); ++tier) {
            const TierId id = set.tiers[tier];
            const bool on_device = id.kind == TierKind::device;
            Device& device = on_device ? devices.of(id.index) : devices.first();
            pools_.push_back(std::make_unique<Pool>(
                fmt::format("{} memory", tier_name(id.kind)),
                device.allocate(set.arena_bytes[tier], on_device ? MemoryKind::device : MemoryKind::host)));
        }
    }
    // Bytes [begin, begin + bytes) of a buffer.
    Lease lease(const BufferSpec& buffer, bool write, int64_t begin, int64_t bytes,
                const LeaseOrder& order = {}) const {
        return pool(buffer).lease(buffer.offset + begin, bytes, write, order);
    }
    Lease lease(const BufferSpec& buffer, bool write) const { return lease(buffer, write, 0, buffer.bytes); }
    // From byte `begin` of a buffer on.
    template <typename Number>
    void read(const BufferSpec& buffer, int64_t begin, std::span<Number> to) const {
        pool(buffer).read(buffer.offset + begin, std::as_writable_bytes(to));
    }
    void write(const BufferSpec& buffer, int64_t begin, std::span<const std::byte> from) const {
        pool(buffer).write(buffer.offset + begin, from);
    }

  private:
    Pool& pool(const BufferSpec& buffer) const { return *pools_[static_cast<size_t>(buffer.tier)]; }
    std::vector<std::unique_ptr<Pool>> pools_;  // by tier
};

}  // namespace windlass
