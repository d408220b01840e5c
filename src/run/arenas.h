// arenas.h: the memory of a run: one pool a tier.
#pragma once

#include <memory>
#include <vector>

#include "schedule/schedule.h"
#include "tier/pool.h"

namespace windlass {

class Arenas {
  public:
    explicit Arenas(const ScheduleSet& set) {
        for (size_t tier = 0; tier < set.tiers.size(); ++tier) {
            pools_.push_back(std::make_unique<Pool>(std::string(tier_name(set.tiers[tier].kind)) + " memory",
                                                    set.arena_bytes[tier]));
        }
    }
    // Bytes [begin, begin + bytes) of a buffer.
    Lease lease(const BufferSpec& buffer, bool write, int64_t begin, int64_t bytes) const {
        return pools_[static_cast<size_t>(buffer.tier)]->lease(buffer.offset + begin, bytes, write);
    }
    Lease lease(const BufferSpec& buffer, bool write) const { return lease(buffer, write, 0, buffer.bytes); }

  private:
    std::vector<std::unique_ptr<Pool>> pools_;  // by tier
};

}  // namespace windlass
