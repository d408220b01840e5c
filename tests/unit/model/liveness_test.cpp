#include "model/liveness.h"

#include <algorithm>

#include "base/math.h"
#include "base/rng.h"

namespace windlass {
namespace {

std::vector<LivePiece> random_pieces(uint64_t seed, size_t count, int64_t positions) {
    Random random(seed, RandomStream::test);
    std::vector<LivePiece> pieces;
    for (size_t i = 0; i < count; ++i) {
        const auto first = static_cast<int64_t>(random.below(static_cast<uint64_t>(positions)));
        const uint64_t longest = random.below(10) == 0 ? static_cast<uint64_t>(positions) : 6;
        const int64_t last = std::min(positions - 1, first + static_cast<int64_t>(random.below(longest)));
        pieces.push_back({.bytes = static_cast<int64_t>(random.below(5000)), .first = first, .last = last});
    }
    return pieces;
}

bool together(const LivePiece& a, const LivePiece& b) {
    return a.first <= b.last && b.first <= a.last;
}

// The same rule, piece against piece: the largest first, each at the lowest place that is free while it lives.
int64_t place_one_by_one(std::vector<LivePiece>& pieces, int64_t alignment) {
    std::vector<size_t> order(pieces.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    int64_t total = 0;
    for (size_t n = 0; n < order.size(); ++n) {
        LivePiece& piece = pieces[order[n]];
        const auto taken_until = [&](int64_t offset) {  // where the piece that is in the way ends
            for (size_t m = 0; m < n; ++m) {
                const LivePiece& other = pieces[order[m]];
                const bool apart = offset + piece.bytes <= other.offset || other.offset + other.bytes <= offset;
                if (together(piece, other) && !apart) return round_up(other.offset + other.bytes, alignment);
            }
            return offset;
        };
        piece.offset = 0;
        for (int64_t next = taken_until(0); next != piece.offset; next = taken_until(next)) piece.offset = next;
        total = std::max(total, round_up(piece.offset + piece.bytes, alignment));
    }
    return total;
}

TEST(Liveness, PiecesAliveTogetherDoNotOverlap) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(seed);
        std::vector<LivePiece> pieces = random_pieces(seed, 20 * seed, 5 + 10 * static_cast<int64_t>(seed));
        const int64_t total = place_pieces(pieces, 64);
        for (size_t a = 0; a < pieces.size(); ++a) {
            EXPECT_EQ(pieces[a].offset % 64, 0);
            EXPECT_LE(pieces[a].offset + pieces[a].bytes, total);
            for (size_t b = 0; b < a; ++b) {
                const LivePiece &x = pieces[a], &y = pieces[b];
                if (!together(x, y) || x.bytes == 0 || y.bytes == 0) continue;
                EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset) << a << ", " << b;
            }
        }
    }
}

// The largest sum of bytes alive at one time: no placement can do better.
int64_t peak_of(const std::vector<LivePiece>& pieces, int64_t alignment) {
    int64_t peak = 0;
    for (const LivePiece& newest : pieces) {  // the sum grows only where a piece begins
        int64_t alive = 0;
        for (const LivePiece& piece : pieces)
            if (piece.first <= newest.first && newest.first <= piece.last) alive += round_up(piece.bytes, alignment);
        peak = std::max(peak, alive);
    }
    return peak;
}

TEST(Liveness, TheTotalIsCloseToThePeak) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
        std::vector<LivePiece> pieces = random_pieces(seed, 400, 150);
        const int64_t total = place_pieces(pieces, 64), peak = peak_of(pieces, 64);
        EXPECT_GE(total, peak) << seed;
        EXPECT_LE(static_cast<double>(total), 1.3 * static_cast<double>(peak)) << seed;
    }
}

void expect_lowest_places(uint64_t seed, size_t count, int64_t positions) {
    SCOPED_TRACE(fmt::format("seed {}, {} pieces", seed, count));
    std::vector<LivePiece> pieces = random_pieces(seed, count, positions);
    std::erase_if(pieces, [](const LivePiece& piece) { return piece.bytes == 0; });
    std::vector<LivePiece> reference = pieces;
    EXPECT_EQ(place_pieces(pieces, 32), place_one_by_one(reference, 32));
    size_t elsewhere = 0;
    for (size_t i = 0; i < pieces.size(); ++i) elsewhere += pieces[i].offset != reference[i].offset ? 1 : 0;
    EXPECT_EQ(elsewhere, 0u);
}

// Few pieces and many are found a place in different ways.
TEST(Liveness, EachPieceLiesAtTheLowestFreePlace) {
    for (uint64_t seed = 1; seed <= 10; ++seed) expect_lowest_places(seed, 150, 40);
    expect_lowest_places(11, 1500, 1500);
}

TEST(Liveness, OneAfterTheOtherShares) {
    std::vector<LivePiece> pieces = {{100, 0, 1, 0}, {100, 2, 3, 0}, {50, 1, 2, 0}, {0, 0, 3, 0}};
    EXPECT_EQ(place_pieces(pieces, 10), 150);
    EXPECT_EQ(pieces[0].offset, 0);
    EXPECT_EQ(pieces[1].offset, 0);
    EXPECT_EQ(pieces[2].offset, 100);
    std::vector<LivePiece> none;
    EXPECT_EQ(place_pieces(none, 64), 0);
}

}  // namespace
}  // namespace windlass
