#include "tier/copy_mover.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace windlass {
namespace {

void copy_over_link(const CopyRange& range, Stream& stream, Throttle& link) {
    for (int64_t begin = 0; begin < std::ssize(range.from); begin += kCopyPieceBytes) {
        const int64_t bytes = std::min(kCopyPieceBytes, std::ssize(range.from) - begin);
        const Throttle::Passage passage = link.enter(bytes);
        stream.copy(range.to.data() + begin, range.from.data() + begin, bytes);
        link.leave(passage);
    }
}

// How many ranges from here on follow each other without a gap on both sides: they are one copy.
size_t run_length(std::span<const CopyRange> ranges) {
    size_t length = 1;
    while (length < ranges.size() && ranges[length].from.data() == std::to_address(ranges[length - 1].from.end()) &&
           ranges[length].to.data() == std::to_address(ranges[length - 1].to.end()))
        ++length;
    return length;
}

}  // namespace

void CopyMover::transfer(std::span<const CopyRange> ranges, Stream& stream) {
    for (const CopyRange& range : ranges)
        WINDLASS_CHECK(range.to.size() == range.from.size(), "{} bytes are copied to {}", range.from.size(),
                       range.to.size());
    while (!ranges.empty()) {
        const size_t length = run_length(ranges);
        CopyRange joined = ranges.front();
        joined.from = {joined.from.data(), std::to_address(ranges[length - 1].from.end())};
        joined.to = {joined.to.data(), std::to_address(ranges[length - 1].to.end())};
        if (link_ != nullptr)
            copy_over_link(joined, stream, *link_);
        else
            stream.copy(joined.to.data(), joined.from.data(), std::ssize(joined.from));
        ranges = ranges.subspan(length);
    }
}

}  // namespace windlass
