// disk_mover.h: moves byte ranges between files and leased memory through a FileQueue.
//
// One transfer is a list of ranges; it is cut into requests of kRequestBytesMax that are in flight together. With a
// throttle each request enters the link as it is submitted, and the next waits until the link has carried it; a slower
// drive has many in flight as before. Checksums are computed from the bytes while the drive works on those after
// them. Threads: one owner (a lane).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "tier/throttle.h"

namespace windlass {

struct DiskRange {
    File* file = nullptr;
    int64_t offset = 0;
    std::span<std::byte> memory;
};

// The next bytes of a range, given by its index: ranges in their order, each from front to end. Read: they have
// arrived. Written: they are on their way, and stay as they are until the transfer returns.
using BytesSeen = std::function<void(size_t range, std::span<const std::byte> bytes)>;

class DiskMover {
  public:
    // The link outlives the mover; movers that are given the same one share it.
    explicit DiskMover(std::unique_ptr<FileQueue> queue, Throttle* link = nullptr)
        : queue_(std::move(queue)), link_(link) {}
    // Returns when every range is read or written whole. Throws MachineError with the first failure's call, file and
    // errno, after everything in flight has been reaped; after a failure nothing more is submitted.
    void transfer(FileVerb verb, std::span<const DiskRange> ranges, const BytesSeen& seen = {});

  private:
    // One request, as `seen` is told of it.
    struct Part {
        size_t range;
        std::span<std::byte> bytes;
        bool done;
    };
    void submit(const FileRequest& request);
    void reap();
    void show(const BytesSeen& seen);

    std::unique_ptr<FileQueue> queue_;
    Throttle* link_;
    // Of the transfer at hand.
    std::vector<Part> parts_;
    size_t shown_ = 0;
    FileResult failure_;
};

}  // namespace windlass
