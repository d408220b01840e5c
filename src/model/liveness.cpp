#include "model/liveness.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

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
            eras_[era].push_back(pieces_[index]);
    }
    struct Taken {
        int64_t begin = 0, end = 0;
    };
    // Where the pieces are that are alive together with this one, by rising begin.
    const std::vector<Taken>& taken(const LivePiece& piece) {
        taken_.clear();
        const size_t first_era = era_of(piece.first), last_era = era_of(piece.last);
        for (size_t era = first_era; era <= last_era; ++era) {
            for (const LivePiece& other : eras_[era]) {
                if (other.last < piece.first || piece.last < other.first) continue;
                // Met in an earlier era already?
                if (era == first_era || era == era_of(other.first))
                    taken_.push_back({other.offset, other.offset + other.bytes});
            }
        }
        std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
        return taken_;
    }

  private:
    size_t era_of(int64_t position) const {
        return static_cast<size_t>(position * static_cast<int64_t>(eras_.size()) / end_);
    }

    const std::vector<LivePiece>& pieces_;
    int64_t end_ = 1;
    std::vector<std::vector<LivePiece>> eras_;  // copies, so that they are gone through in one row
    std::vector<Taken> taken_;
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
        for (const auto& [begin, end] : placed.taken(piece)) {
            if (offset + piece.bytes <= begin) break;  // fits in the gap below
            offset = std::max(offset, round_up(end, alignment));
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
