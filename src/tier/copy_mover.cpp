#include "tier/copy_mover.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace windlass {
namespace {

void copy_piece(const CopyRange& range, size_t begin, size_t bytes, Throttle* link) {
    if (link == nullptr) {
        std::memcpy(range.to.data() + begin, range.from.data() + begin, bytes);
        return;
    }
    const Throttle::Passage passage = link->enter(static_cast<int64_t>(bytes));
    std::memcpy(range.to.data() + begin, range.from.data() + begin, bytes);
    link->leave(passage);
}

}  // namespace

void CopyMover::transfer(std::span<const CopyRange> ranges) {
    for (const CopyRange& range : ranges) {
        const size_t bytes = range.from.size();
        WINDLASS_CHECK(range.to.size() == bytes, "{} bytes are copied to {}", bytes, range.to.size());
        for (size_t begin = 0; begin < bytes; begin += kCopyPieceBytes) {
            copy_piece(range, begin, std::min<size_t>(kCopyPieceBytes, bytes - begin), link_);
        }
    }
}

}  // namespace windlass
