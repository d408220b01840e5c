#include "tier/disk_mover.h"

#include <algorithm>

#include "base/error.h"

namespace windlass {

void DiskMover::transfer(FileVerb verb, std::span<const DiskRange> ranges) {
    FileResult failure;
    const auto note = [&](const std::vector<FileResult>& results) {
        for (const FileResult& result : results) {
            if (result.error_number != 0 && failure.error_number == 0) failure = result;
        }
    };
    for (uint64_t index = 0; index < ranges.size() && failure.error_number == 0; ++index) {
        const DiskRange& range = ranges[index];
        const int64_t bytes = static_cast<int64_t>(range.memory.size());
        for (int64_t done = 0; done < bytes; done += kRequestBytesMax) {
            const int64_t count = std::min(kRequestBytesMax, bytes - done);
            if (queue_->in_flight() == queue_->depth()) note(queue_->reap());
            queue_->submit({verb, range.file, range.offset + done,
                            range.memory.subspan(static_cast<size_t>(done), static_cast<size_t>(count)), index});
        }
    }
    while (queue_->in_flight() > 0) note(queue_->reap());
    if (failure.error_number != 0) {
        throw MachineError(verb == FileVerb::read ? "read" : "write", ranges[failure.tag].file->path(),
                           failure.error_number, failure.message);
    }
}

}  // namespace windlass
