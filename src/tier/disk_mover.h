// disk_mover.h: moves byte ranges between files and leased memory through a FileQueue.
//
// One transfer is a list of ranges; it is cut into requests of kRequestBytesMax that are in flight together.
// Threads: one owner (a lane).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/file.h"

namespace windlass {

struct DiskRange {
    File* file = nullptr;
    int64_t offset = 0;
    std::span<std::byte> memory;
};

class DiskMover {
  public:
    explicit DiskMover(std::unique_ptr<FileQueue> queue) : queue_(std::move(queue)) {}
    // Returns when every range is read or written whole. Throws MachineError with the first failure's call, file and
    // errno, after everything in flight has been reaped.
    void transfer(FileVerb verb, std::span<const DiskRange> ranges);

  private:
    std::unique_ptr<FileQueue> queue_;
};

}  // namespace windlass
