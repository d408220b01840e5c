#include "tier/disk_mover.h"

#include <algorithm>

#include "base/error.h"

namespace windlass {

void DiskMover::reap() {
    for (FileResult& result : queue_->reap()) {
        parts_[result.tag].done = result.error_number == 0;
        if (result.error_number != 0 && failure_.error_number == 0) failure_ = std::move(result);
    }
}

void DiskMover::submit(const FileRequest& request) {
    while (queue_->in_flight() >= queue_->depth()) reap();
    if (failure_.error_number != 0) return;
    if (link_ == nullptr) return queue_->submit(request);
    const Throttle::Passage passage = link_->enter(static_cast<int64_t>(request.buffer.size()));
    queue_->submit(request);
    link_->leave(passage);
}

void DiskMover::show(const BytesSeen& seen) {
    for (; shown_ < parts_.size() && parts_[shown_].done; ++shown_) {
        if (seen) seen(parts_[shown_].range, parts_[shown_].bytes);
    }
}

void DiskMover::transfer(FileVerb verb, std::span<const DiskRange> ranges, const BytesSeen& seen) {
    parts_.clear();
    shown_ = 0;
    failure_ = {};
    for (size_t index = 0; index < ranges.size(); ++index) {
        const DiskRange& range = ranges[index];
        const auto bytes = static_cast<int64_t>(range.memory.size());
        for (int64_t done = 0; done < bytes && failure_.error_number == 0; done += kRequestBytesMax) {
            const int64_t count = std::min(kRequestBytesMax, bytes - done);
            const auto part = range.memory.subspan(static_cast<size_t>(done), static_cast<size_t>(count));
            parts_.push_back({.range = index, .bytes = part, .done = false});
            submit({verb, range.file, range.offset + done, part, parts_.size() - 1});
            // After the submission: the queue is as full as it gets while `seen` runs.
            if (verb == FileVerb::write && seen) seen(index, part);
            if (verb == FileVerb::read) show(seen);
        }
    }
    while (queue_->in_flight() > 0) {
        reap();
        if (verb == FileVerb::read) show(seen);
    }
    if (failure_.error_number != 0) {
        throw MachineError(verb == FileVerb::read ? "read" : "write", ranges[parts_[failure_.tag].range].file->path(),
                           failure_.error_number, failure_.message);
    }
}

}  // namespace windlass
