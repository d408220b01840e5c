// movers.h: what the lanes that move bytes work with, and what slows lanes down where that is asked for.
#pragma once

#include <memory>
#include <vector>

#include "base/file.h"
#include "run/engine.h"
#include "tier/copy_mover.h"
#include "tier/disk_mover.h"
#include "tier/jitter.h"

namespace windlass {

class Movers {
  public:
    Movers(FileSystem& files, const Emulation& emulation, bool uses_disk, size_t lanes);

    CopyMover& copies(MoveKind kind) { return kind == MoveKind::up ? up_ : down_; }
    DiskMover& disk(MoveKind kind) { return *(kind == MoveKind::disk_read ? reader_ : writer_); }
    // Of a lane by its number; null outside tests.
    Jitter* jitter(int lane) { return jitter_.empty() ? nullptr : jitter_[static_cast<size_t>(lane)].get(); }

  private:
    Throttle up_link_, down_link_, disk_link_;
    CopyMover up_, down_;
    std::unique_ptr<DiskMover> reader_, writer_;
    std::vector<std::unique_ptr<Jitter>> jitter_;
};

}  // namespace windlass
