// wait_rows.h: what check knows of waits while it walks over a schedule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <vector>

#include "base/index.h"
#include "schedule/schedule.h"

namespace windlass {

// Sets of waits with a count for every lane, 0: no wait. Planning takes the highest of millions of them.
class WaitRows {
  public:
    explicit WaitRows(size_t lanes) : lanes_(lanes), counts_(lanes, 0) {}
    int32_t add() {
        counts_.resize(counts_.size() + lanes_, 0);
        return last();
    }
    int32_t add_copy(int32_t row) {
        const int32_t copy = add();
        raise(copy, row);
        return copy;
    }
    void raise(int32_t row, Wait wait) {
        int& count = counts_[at(row) * lanes_ + at(wait.lane)];
        count = std::max(count, wait.count);
    }
    void raise(int32_t row, int32_t others) {
        int* const to = &counts_[at(row) * lanes_];
        const int* const from = &counts_[at(others) * lanes_];
        for (size_t lane = 0; lane < lanes_; ++lane) to[lane] = std::max(to[lane], from[lane]);
    }
    void clear(int32_t row) { std::fill_n(&counts_[at(row) * lanes_], lanes_, 0); }
    // But for this lane.
    Waits waits(int32_t row, int own_lane) const {
        Waits waits;
        for (size_t lane = 0; lane < lanes_; ++lane) {
            if (static_cast<int>(lane) != own_lane)
                waits.raise(static_cast<int>(lane), counts_[at(row) * lanes_ + lane]);
        }
        return waits;
    }

  private:
    int32_t last() const { return static_cast<int32_t>(counts_.size() / lanes_) - 1; }
    size_t lanes_;
    std::vector<int> counts_;  // row by row
};

// Who last wrote and read each byte of a buffer, in ranges.
class ByteHistory {
  public:
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit ByteHistory(const allocator_type& memory) : parts_(memory) {}

    // Adds to the row `after` what a use of these bytes waits for; then the use is itself the last user.
    void use(const BufferUse& bytes, Wait self, int32_t after, WaitRows& rows) {
        auto part = begin_at(bytes.begin, rows);
        while (part != parts_.end() && part->first < bytes.end) {
            auto next = std::next(part);
            if (next == parts_.end() || next->first > bytes.end) next = split(part, bytes.end, rows);
            const Users& users = part->second;
            rows.raise(after, users.writers);
            if (bytes.write) {
                rows.raise(after, users.readers);
                // The next user waits for this task, which waited for them.
                rows.clear(users.writers);
                rows.clear(users.readers);
            }
            rows.raise(bytes.write ? users.writers : users.readers, self);
            part = next;
        }
        behind_ = part;
    }

  private:
    struct Users {
        int32_t writers, readers;  // rows
    };
    using Parts = std::pmr::map<int64_t, Users>;  // by where the range begins

    Parts::iterator begin_at(int64_t position, WaitRows& rows) {
        if (parts_.empty()) behind_ = parts_.emplace(0, Users{rows.add(), rows.add()}).first;
        // The pieces of a parameter mostly come one after the other.
        if (behind_ != parts_.end() && behind_->first == position) return behind_;
        const auto part = std::prev(parts_.upper_bound(position));
        return part->first == position ? part : split(part, position, rows);
    }
    Parts::iterator split(Parts::iterator part, int64_t position, WaitRows& rows) {
        const auto [writers, readers] = part->second;
        return parts_.emplace_hint(std::next(part), position, Users{rows.add_copy(writers), rows.add_copy(readers)});
    }

    Parts parts_;
    Parts::iterator behind_;  // the bytes that were used last
};

}  // namespace windlass
