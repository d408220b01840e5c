// copy_mover.h: copies byte ranges between the arenas of two tiers, at the rate of the link between them.
//
// Copies over a link that is slowed are cut into pieces of kCopyPieceBytes, and each piece passes it by itself, so that
// several lanes share one evenly. Threads: one owner (a lane).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/device.h"
#include "tier/throttle.h"

namespace windlass {

inline constexpr int64_t kCopyPieceBytes = int64_t{2} << 20;

struct CopyRange {
    std::span<const std::byte> from;
    std::span<std::byte> to;  // of the same size, and apart from it
};

class CopyMover {
  public:
    // Without a link copies go as fast as memory does. The link outlives the mover.
    explicit CopyMover(Throttle* link = nullptr) : link_(link) {}
    // By work of this stream, while it is launched. Where the stream completes at once, it returns when every range is
    // copied whole and its bytes are across the link.
    void transfer(std::span<const CopyRange> ranges, Stream& stream);

  private:
    Throttle* link_;
};

}  // namespace windlass
