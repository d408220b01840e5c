#include "model/liveness.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/math.h"

namespace windlass {

int64_t place_pieces(std::vector<LivePiece>& pieces, int64_t alignment) {
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    std::vector<size_t> placed;  // by rising offset
    int64_t total = 0;
    for (const size_t index : order) {
        LivePiece& piece = pieces[index];
        int64_t offset = 0;
        for (const size_t other_index : placed) {
            const LivePiece& other = pieces[other_index];
            if (other.last < piece.first || piece.last < other.first) continue;
            if (offset + piece.bytes <= other.offset) break;  // fits in the gap below
            offset = std::max(offset, round_up(other.offset + other.bytes, alignment));
        }
        piece.offset = offset;
        const auto place = std::upper_bound(placed.begin(), placed.end(), offset,
                                            [&](int64_t value, size_t i) { return value < pieces[i].offset; });
        placed.insert(place, index);
        total = std::max(total, round_up(offset + piece.bytes, alignment));
    }
    return total;
}

int64_t peak_of_pieces(const std::vector<LivePiece>& pieces, int64_t alignment) {
    std::map<int64_t, int64_t> change;
    for (const LivePiece& piece : pieces) {
        change[piece.first] += round_up(piece.bytes, alignment);
        change[piece.last + 1] -= round_up(piece.bytes, alignment);
    }
    int64_t alive = 0, peak = 0;
    for (const auto& [position, delta] : change) peak = std::max(peak, alive += delta);
    return peak;
}

}  // namespace windlass
