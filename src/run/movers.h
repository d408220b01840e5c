// movers.h: what the lanes that move bytes work with, and what slows lanes down where that is asked for.
#pragma once

#include <array>
#include <memory>

#include "base/file.h"
#include "run/engine.h"
#include "tier/copy_mover.h"
#include "tier/disk_mover.h"
#include "tier/jitter.h"

namespace windlass {

class Movers {
  public:
    Movers(FileSystem& files, const Emulation& emulation, bool uses_disk);

    CopyMover& copies(MoveKind kind) { return kind == MoveKind::up ? up_ : down_; }
    DiskMover& disk(MoveKind kind) { return *(kind == MoveKind::disk_read ? reader_ : writer_); }
    Jitter* jitter(LaneId lane) { return jitter_[slot(lane)].get(); }

  private:
    Throttle up_link_, down_link_, disk_link_;
    CopyMover up_, down_;
    std::unique_ptr<DiskMover> reader_, writer_;
    std::array<std::unique_ptr<Jitter>, kLaneKinds> jitter_;
};

}  // namespace windlass
