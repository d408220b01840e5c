#include "model/liveness.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/math.h"

namespace windlass {

namespace {

// Pieces that have their place, in eras of time: a piece meets only its contemporaries, of which there are few even
// where a step has a hundred thousand pieces.
class Timeline {
  public:
    explicit Timeline(const std::vector<LivePiece>& pieces) : pieces_(pieces) {
        for (const LivePiece& piece : pieces) end_ = std::max(end_, piece.last + 1);
        eras_.resize(static_cast<size_t>(4 * std::sqrt(static_cast<double>(pieces.size()))) + 1);
    }
    void add(size_t index) {
        for (size_t era = era_of(pieces_[index].first); era <= era_of(pieces_[index].last); ++era)
            eras_[era].push_back(index);
    }
    // Pieces alive together with this one, by rising offset.
    const std::vector<size_t>& contemporaries(const LivePiece& piece) {
        found_.clear();
        const size_t first_era = era_of(piece.first);
        for (size_t era = first_era; era <= era_of(piece.last); ++era) {
            for (const size_t index : eras_[era]) {
                const LivePiece& other = pieces_[index];
                if (other.last < piece.first || piece.last < other.first) continue;
                if (era == std::max(first_era, era_of(other.first))) found_.push_back(index);  // met here first
            }
        }
        std::sort(found_.begin(), found_.end(),
                  [&](size_t a, size_t b) { return std::tie(pieces_[a].offset, a) < std::tie(pieces_[b].offset, b); });
        return found_;
    }

  private:
    size_t era_of(int64_t position) const {
        return static_cast<size_t>(position * static_cast<int64_t>(eras_.size()) / end_);
    }

    const std::vector<LivePiece>& pieces_;
    int64_t end_ = 1;
    std::vector<std::vector<size_t>> eras_;
    std::vector<size_t> found_;
};

}  // namespace

int64_t place_pieces(std::vector<LivePiece>& pieces, int64_t alignment) {
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    Timeline placed(pieces);
    int64_t total = 0;
    for (const size_t index : order) {
        LivePiece& piece = pieces[index];
        int64_t offset = 0;
        for (const size_t other_index : placed.contemporaries(piece)) {
            const LivePiece& other = pieces[other_index];
            if (offset + piece.bytes <= other.offset) break;  // fits in the gap below
            offset = std::max(offset, round_up(other.offset + other.bytes, alignment));
        }
        piece.offset = offset;
        placed.add(index);
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
