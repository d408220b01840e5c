// liveness.h: memory by lifetime: pieces that are never alive together may share addresses.
#pragma once

#include <cstdint>
#include <vector>

namespace windlass {

// Alive from the first to the last position, both included, in some order of events.
struct LivePiece {
    int64_t bytes = 0;
    int64_t first = 0;
    int64_t last = 0;
    int64_t offset = 0;  // filled by place_pieces
};

// Gives every piece an offset, a multiple of `alignment`, so that pieces alive at one time do not overlap; returns
// the bytes that hold them all. Largest first, each at the lowest free place: close to the peak of live bytes.
int64_t place_pieces(std::vector<LivePiece>& pieces, int64_t alignment);

}  // namespace windlass
