// movers.h: what the lanes that move bytes work with, and what slows lanes down where that is asked for.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "run/engine.h"
#include "tier/copy_mover.h"
#include "tier/disk_mover.h"
#include "tier/jitter.h"

namespace windlass {

class Movers {
  public:
    Movers(FileSystem& files, const Emulation& emulation, bool uses_disk, std::span<const LaneId> lanes);

    // Of a lane by its number: over the link of its device, each way its own; what the compute lane copies stays there.
    CopyMover& copies(int lane) { return *links_[static_cast<size_t>(lane)].mover; }
    DiskMover& disk(MoveKind kind) { return *(kind == MoveKind::disk_read ? reader_ : writer_); }
    // Of a lane by its number; null outside tests.
    Jitter* jitter(int lane) { return jitter_.empty() ? nullptr : jitter_[static_cast<size_t>(lane)].get(); }

  private:
    struct Link {
        std::unique_ptr<Throttle> throttle;
        std::unique_ptr<CopyMover> mover;
    };
    std::vector<Link> links_;  // by lane; null where it moves nothing between memories
    Throttle disk_link_;
    std::unique_ptr<DiskMover> reader_, writer_;
    std::vector<std::unique_ptr<Jitter>> jitter_;
};

}  // namespace windlass
