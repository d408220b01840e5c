#include "model/liveness.h"

#include <algorithm>
#include <limits>
#include <memory_resource>
#include <numeric>

#include "base/math.h"

namespace windlass {

namespace {

// Addresses that are taken. Ranges that touch are one: what is packed without gaps is few ranges, however many pieces.
class Taken {
  public:
    explicit Taken(std::pmr::memory_resource* memory) : ranges_(memory) {}
    void add(int64_t begin, int64_t end) {
        auto first = std::ranges::lower_bound(ranges_, begin, {}, &Range::end);
        auto last = first;
        for (; last != ranges_.end() && last->begin <= end; ++last) {
            begin = std::min(begin, last->begin);
            end = std::max(end, last->end);
        }
        if (first == last) {
            ranges_.insert(first, {begin, end});
        } else {
            *first = {begin, end};
            ranges_.erase(first + 1, last);
        }
    }
    // The lowest free place for `bytes` that is not below `offset`.
    int64_t lowest(int64_t offset, int64_t bytes) const {
        auto range = std::ranges::upper_bound(ranges_, offset, {}, &Range::end);
        for (; range != ranges_.end() && range->begin < offset + bytes; ++range) offset = range->end;
        return offset;
    }

  private:
    struct Range {
        int64_t begin = 0, end = 0;
    };
    std::pmr::vector<Range> ranges_;  // by rising begin, apart
};

// What is placed, in one row by rising offset, and looked through from the lowest on. Most pieces are alive for a
// moment, so most of the row is not alive with any one of them: lives are tested several at a time.
class Row {
  public:
    explicit Row(const std::vector<LivePiece>& pieces)
        : addresses_(pieces.size()), first_(pieces.size() + kStretch, kNever), last_(pieces.size() + kStretch, -1) {}

    int64_t lowest(const LivePiece& piece) const {
        int64_t offset = 0;
        for (size_t begin = 0; begin < size_; begin += kStretch) {
            if (addresses_[begin].begin >= offset + piece.bytes) break;
            if (!meets(begin, piece)) continue;
            for (size_t index = begin; index < std::min(begin + kStretch, size_); ++index) {
                if (addresses_[index].begin >= offset + piece.bytes) return offset;
                if (first_[index] <= piece.last && piece.first <= last_[index])
                    offset = std::max(offset, addresses_[index].end);
            }
        }
        return offset;
    }

    void add(const LivePiece& piece, int64_t end) {
        const auto place =
            std::upper_bound(addresses_.begin(), addresses_.begin() + static_cast<std::ptrdiff_t>(size_), piece.offset,
                             [](int64_t offset, const Range& each) { return offset < each.begin; });
        const auto index = static_cast<size_t>(place - addresses_.begin());
        insert(addresses_, index, {piece.offset, end});
        insert(first_, index, static_cast<int32_t>(piece.first));
        insert(last_, index, static_cast<int32_t>(piece.last));
        ++size_;
    }

  private:
    struct Range {
        int64_t begin = 0, end = 0;
    };
    static constexpr size_t kStretch = 8;
    static constexpr int32_t kNever = std::numeric_limits<int32_t>::max();

    // Whether any of a stretch is alive with the piece. After the last one there are lives that never were. Two lives
    // meet if neither begins after the other's end: signs say so without a branch.
    bool meets(size_t begin, const LivePiece& piece) const {
        const auto first = static_cast<int32_t>(piece.first), last = static_cast<int32_t>(piece.last);
        int32_t apart = -1;
        for (size_t index = begin; index < begin + kStretch; ++index)
            apart &= (last - first_[index]) | (last_[index] - first);
        return apart >= 0;
    }
    template <typename T>
    void insert(std::vector<T>& row, size_t index, T value) {
        std::copy_backward(row.begin() + static_cast<std::ptrdiff_t>(index),
                           row.begin() + static_cast<std::ptrdiff_t>(size_),
                           row.begin() + static_cast<std::ptrdiff_t>(size_) + 1);
        row[index] = value;
    }

    size_t size_ = 0;
    std::vector<Range> addresses_;
    std::vector<int32_t> first_, last_;  // events
};

// A tree over time: each node is a stretch of it, halved by its children. A piece is written to the few nodes that its
// life is made of, and to those above them. Thousands of micro-batches' values may be alive at one time, so a list of
// every piece's contemporaries would be quadratic.
class Timeline {
  public:
    explicit Timeline(const std::vector<LivePiece>& pieces) {
        for (const LivePiece& piece : pieces) {
            moments_.push_back(piece.first);
            moments_.push_back(piece.last + 1);
        }
        std::ranges::sort(moments_);
        moments_.erase(std::unique(moments_.begin(), moments_.end()), moments_.end());
        size_t leaves = 1;
        while (leaves < moments_.size()) leaves *= 2;
        nodes_.reserve(2 * leaves);
        for (size_t node = 0; node < 2 * leaves; ++node) nodes_.emplace_back(&memory_);
    }

    // The lowest place that is free all the time that the piece is alive.
    int64_t lowest(const LivePiece& piece) {
        met_.clear();
        visit(piece, 1, {0, nodes_.size() / 2},
              [&](const Node& node, bool inside) { met_.push_back(inside ? &node.some_time : &node.all_time); });
        int64_t offset = 0, before = -1;
        while (offset != before) {
            before = offset;
            for (const Taken* taken : met_) offset = taken->lowest(offset, piece.bytes);
        }
        return offset;
    }

    void add(const LivePiece& piece, int64_t end) {
        visit(piece, 1, {0, nodes_.size() / 2}, [&](Node& node, bool inside) {
            node.some_time.add(piece.offset, end);
            if (inside) node.all_time.add(piece.offset, end);
        });
    }

  private:
    struct Node {
        explicit Node(std::pmr::memory_resource* memory) : all_time(memory), some_time(memory) {}
        Taken all_time;   // by pieces that are alive through all of the node's time, and not through its parent's
        Taken some_time;  // by all that are alive at some of it, but those through its parent's time
    };
    struct Span {
        size_t begin = 0, end = 0;  // of moments
    };

    // Nodes that the piece's life is made of (inside), and those above them, the root first.
    template <typename Visitor>
    void visit(const LivePiece& piece, size_t node, Span span, const Visitor& visitor) {
        const auto moment = [&](size_t index) { return index < moments_.size() ? moments_[index] : moments_.back(); };
        if (moment(span.end) <= piece.first || piece.last < moment(span.begin)) return;
        const bool inside = piece.first <= moment(span.begin) && moment(span.end) <= piece.last + 1;
        visitor(nodes_[node], inside);
        if (inside) return;
        const size_t middle = (span.begin + span.end) / 2;
        visit(piece, 2 * node, {span.begin, middle}, visitor);
        visit(piece, 2 * node + 1, {middle, span.end}, visitor);
    }

    // Of the many small lists of ranges: given back all at once.
    std::pmr::monotonic_buffer_resource memory_{size_t{1} << 16};
    std::vector<int64_t> moments_;  // at which a piece's life begins or has ended
    std::vector<Node> nodes_;       // the children of node n are 2n and 2n + 1
    std::vector<const Taken*> met_;
};

// Up to here a row is quicker than a tree, which needs memory for each of its nodes.
constexpr size_t kRowMost = 1024;

template <typename Placement>
int64_t place_by_size(std::vector<LivePiece>& pieces, int64_t alignment) {
    std::vector<size_t> order(pieces.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].bytes > pieces[b].bytes; });
    Placement placed(pieces);
    int64_t total = 0;
    for (const size_t index : order) {
        LivePiece& piece = pieces[index];
        piece.offset = placed.lowest(piece);
        const int64_t end = round_up(piece.offset + piece.bytes, alignment);
        placed.add(piece, end);
        total = std::max(total, end);
    }
    return total;
}

}  // namespace

int64_t place_pieces(std::vector<LivePiece>& pieces, int64_t alignment) {
    return pieces.size() <= kRowMost ? place_by_size<Row>(pieces, alignment)
                                     : place_by_size<Timeline>(pieces, alignment);
}

}  // namespace windlass
