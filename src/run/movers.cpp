#include "run/movers.h"

namespace windlass {
namespace {

constexpr int kQueueDepth = 8;  // requests of 2 MiB in flight a lane: enough for one drive (see bench/file_queue_bench)

Throttle* if_slowed(Throttle& throttle) {
    return throttle.bytes_per_s() > 0 ? &throttle : nullptr;
}

}  // namespace

Movers::Movers(FileSystem& files, const Emulation& emulation, bool uses_disk, size_t lanes)
    : up_link_(emulation.link_bytes_per_s),
      down_link_(emulation.link_bytes_per_s),
      disk_link_(emulation.disk_bytes_per_s),
      up_(if_slowed(up_link_)),
      down_(if_slowed(down_link_)) {
    if (uses_disk) {
        for (std::unique_ptr<DiskMover>* mover : {&reader_, &writer_}) {
            *mover =
                std::make_unique<DiskMover>(files.make_queue(QueueKind::automatic, kQueueDepth), if_slowed(disk_link_));
        }
    }
    if (emulation.jitter_ns == 0) return;
    for (size_t lane = 0; lane < lanes; ++lane)
        jitter_.push_back(
            std::make_unique<Jitter>(emulation.jitter_seed, emulation.jitter_ns, static_cast<uint32_t>(lane)));
}

}  // namespace windlass
