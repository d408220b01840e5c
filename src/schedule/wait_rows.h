// wait_rows.h: what derive_waits knows of waits while it walks over a schedule.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <vector>

#include "base/index.h"
#include "schedule/schedule.h"

namespace windlass {

// Sets of waits with a count for every lane, 0: no wait. Planning takes the highest of millions of them, eight lanes at
// a time.
class WaitRows {
  public:
    explicit WaitRows(size_t lanes) : lanes_(lanes), parts_((lanes + kPart - 1) / kPart) {}
    void reserve(size_t rows) { counts_.reserve(rows * parts_); }
    int32_t add() {
        counts_.resize(counts_.size() + parts_);
        return static_cast<int32_t>(counts_.size() / parts_) - 1;
    }
    int32_t add_copy(int32_t row) {
        const int32_t copy = add();
        std::copy_n(&counts_[at(row) * parts_], parts_, &counts_[at(copy) * parts_]);
        return copy;
    }
    void raise(int32_t row, Wait wait) {
        int& count = counts_[at(row) * parts_ + at(wait.lane) / kPart][at(wait.lane) % kPart];
        count = std::max(count, wait.count);
    }
    void raise(int32_t row, int32_t others) {
        for (size_t part = 0; part < parts_; ++part) {
            Part& to = counts_[at(row) * parts_ + part];
            const Part& from = counts_[at(others) * parts_ + part];
            for (size_t lane = 0; lane < kPart; ++lane) to[lane] = std::max(to[lane], from[lane]);
        }
    }
    void clear(int32_t row) { std::fill_n(&counts_[at(row) * parts_], parts_, Part{}); }
    // But for this lane.
    Waits waits(int32_t row, int own_lane) const {
        Waits waits;
        for (size_t lane = 0; lane < lanes_; ++lane) {
            const int count = counts_[at(row) * parts_ + lane / kPart][lane % kPart];
            if (static_cast<int>(lane) != own_lane && count > 0) waits.append({static_cast<int>(lane), count});
        }
        return waits;
    }

  private:
    static constexpr size_t kPart = 8;
    using Part = std::array<int, kPart>;
    size_t lanes_;
    size_t parts_;              // of a row
    std::vector<Part> counts_;  // row by row
};

// The last writers and readers of each byte of a buffer, in ranges.
class ByteHistory {
  public:
    // `bytes`: of the buffer. `memory` outlives it.
    ByteHistory(int64_t bytes, std::pmr::memory_resource* memory) : bytes_(bytes), parts_(memory) {}

    // Adds to the row `after` what a use of these bytes waits for; then the use is itself the last user.
    void use(const BufferUse& bytes, Wait self, int32_t after, WaitRows& rows) {
        if (parts_.empty()) {
            if (all_.writers < 0) all_ = {rows.add(), rows.add()};
            // Most buffers are only ever used as a whole.
            if (bytes.begin == 0 && bytes.end >= bytes_) return use(all_, bytes.write, self, after, rows);
            last_ = parts_.emplace(0, all_).first;
        }
        auto part = begin_at(bytes.begin, rows);
        while (part != parts_.end() && part->first < bytes.end) {
            auto next = std::next(part);
            if (next == parts_.end() || next->first > bytes.end) next = split(part, bytes.end, rows);
            use(part->second, bytes.write, self, after, rows);
            part = next;
        }
        last_ = part;
    }

  private:
    struct Users {
        int32_t writers = -1, readers = -1;  // rows
    };
    using Parts = std::pmr::map<int64_t, Users>;  // by where the range begins

    static void use(const Users& users, bool writes, Wait self, int32_t after, WaitRows& rows) {
        rows.raise(after, users.writers);
        if (writes) {
            rows.raise(after, users.readers);
            // The next user waits for this task, which waited for them.
            rows.clear(users.writers);
            rows.clear(users.readers);
        }
        rows.raise(writes ? users.writers : users.readers, self);
    }
    Parts::iterator begin_at(int64_t position, WaitRows& rows) {
        // The pieces of a parameter mostly come one after the other.
        if (last_ != parts_.end() && last_->first == position) return last_;
        const auto part = std::prev(parts_.upper_bound(position));
        return part->first == position ? part : split(part, position, rows);
    }
    Parts::iterator split(Parts::iterator part, int64_t position, WaitRows& rows) {
        const auto [writers, readers] = part->second;
        return parts_.emplace_hint(std::next(part), position, Users{rows.add_copy(writers), rows.add_copy(readers)});
    }

    int64_t bytes_;
    Users all_;  // until a part is used
    Parts parts_;
    Parts::iterator last_;  // after the bytes that were used last
};

}  // namespace windlass
