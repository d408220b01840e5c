// disk_mover.h: moves byte ranges between files and leased memory through a FileQueue.
//
// One transfer is a list of ranges; it is cut into requests of kRequestBytesMax that are in flight together. With a
// throttle each request enters the link as it is submitted, and the next waits until the link has carried it; a slower
// drive has many in flight as before. Threads: one owner (a lane).
#pragma once

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

class DiskMover {
  public:
    // The link outlives the mover; movers that are given the same one share it.
    explicit DiskMover(std::unique_ptr<FileQueue> queue, Throttle* link = nullptr)
        : queue_(std::move(queue)), link_(link) {}
    // Returns when every range is read or written whole. Throws MachineError with the first failure's call, file and
    // errno, after everything in flight has been reaped; after a failure nothing more is submitted.
    void transfer(FileVerb verb, std::span<const DiskRange> ranges);

  private:
    void submit(const FileRequest& request, FileResult& failure);
    void reap(FileResult& failure);

    std::unique_ptr<FileQueue> queue_;
    Throttle* link_;
};

}  // namespace windlass
