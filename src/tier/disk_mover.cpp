#include "tier/disk_mover.h"

#include <algorithm>

#include "base/error.h"

namespace windlass {

void DiskMover::reap(FileResult& failure) {
    for (FileResult& result : queue_->reap()) {
        if (result.error_number != 0 && failure.error_number == 0) failure = std::move(result);
    }
}

void DiskMover::submit(const FileRequest& request, FileResult& failure) {
    while (queue_->in_flight() >= queue_->depth()) reap(failure);
    if (failure.error_number != 0) return;
    if (link_ == nullptr) return queue_->submit(request);
    const Throttle::Passage passage = link_->enter(static_cast<int64_t>(request.buffer.size()));
    queue_->submit(request);
    link_->leave(passage);
}

void DiskMover::transfer(FileVerb verb, std::span<const DiskRange> ranges) {
    FileResult failure;
    for (uint64_t index = 0; index < ranges.size(); ++index) {
        const DiskRange& range = ranges[index];
        const auto bytes = static_cast<int64_t>(range.memory.size());
        for (int64_t done = 0; done < bytes && failure.error_number == 0; done += kRequestBytesMax) {
            const int64_t count = std::min(kRequestBytesMax, bytes - done);
            const auto part = range.memory.subspan(static_cast<size_t>(done), static_cast<size_t>(count));
            submit({verb, range.file, range.offset + done, part, index}, failure);
        }
    }
    while (queue_->in_flight() > 0) reap(failure);
    if (failure.error_number != 0) {
        throw MachineError(verb == FileVerb::read ? "read" : "write", ranges[failure.tag].file->path(),
                           failure.error_number, failure.message);
    }
}

}  // namespace windlass
