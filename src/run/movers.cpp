#include "run/movers.h"

namespace windlass {
namespace {

constexpr int kQueueDepth = 8;  // requests of 2 MiB in flight a lane: enough for one drive (see bench/file_queue_bench)

Throttle* if_slowed(Throttle& throttle) {
    return throttle.bytes_per_s() > 0 ? &throttle : nullptr;
}

}  // namespace

Movers::Movers(FileSystem& files, const Emulation& emulation, bool uses_disk, std::span<const LaneId> lanes)
    : links_(lanes.size()), disk_link_(emulation.disk_bytes_per_s) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
        const LaneKind kind = lanes[lane].kind;
        if (kind == LaneKind::host || kind == LaneKind::disk_read || kind == LaneKind::disk_write) continue;
        links_[lane].throttle = std::make_unique<Throttle>(emulation.link_bytes_per_s);
        links_[lane].mover = std::make_unique<CopyMover>(if_slowed(*links_[lane].throttle));
    }
    if (uses_disk) {
        for (std::unique_ptr<DiskMover>* mover : {&reader_, &writer_}) {
            *mover =
                std::make_unique<DiskMover>(files.make_queue(QueueKind::automatic, kQueueDepth), if_slowed(disk_link_));
        }
    }
    if (emulation.jitter_ns == 0) return;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
        jitter_.push_back(
            std::make_unique<Jitter>(emulation.jitter_seed, emulation.jitter_ns, static_cast<uint32_t>(lane)));
}

}  // namespace windlass
