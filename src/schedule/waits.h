// waits.h: how far other lanes must be before a task starts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace windlass {

// The first `count` tasks of a lane, an index into Schedule::lanes, are complete.
struct Wait {
    int lane = 0;
    int count = 0;
    bool operator==(const Wait&) const = default;
};

// One for each lane that is waited for, by lane. A task waits for few: those take no memory of their own.
class Waits {
  public:
    Waits() = default;
    Waits(std::initializer_list<Wait> list) {
        for (const Wait& wait : list) raise(wait.lane, wait.count);
    }
    const Wait* begin() const { return many_.empty() ? few_.data() : many_.data(); }
    const Wait* end() const { return begin() + size_; }
    bool empty() const { return size_ == 0; }

    // 0: that lane is not waited for.
    int of(int lane) const {
        for (const Wait& wait : *this) {
            if (wait.lane == lane) return wait.count;
        }
        return 0;
    }
    // Of a lane after all that are there.
    void append(Wait wait) { insert(size_, wait); }
    // To at least `count` tasks of the lane.
    void raise(int lane, int count) {
        if (count == 0) return;
        Wait* place = first();
        Wait* const end = place + size_;
        while (place != end && place->lane < lane) ++place;  // a handful
        if (place != end && place->lane == lane)
            place->count = std::max(place->count, count);
        else
            insert(place - first(), {lane, count});
    }
    void raise(const Waits& others) {
        for (const Wait& wait : others) raise(wait.lane, wait.count);
    }
    void drop(int lane) {
        size_ = static_cast<int32_t>(
            std::remove_if(first(), first() + size_, [lane](const Wait& wait) { return wait.lane == lane; }) - first());
        if (!many_.empty()) many_.resize(static_cast<size_t>(size_));
    }
    bool operator==(const Waits& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

  private:
    static constexpr size_t kFew = 4;
    Wait* first() { return many_.empty() ? few_.data() : many_.data(); }
    void insert(std::ptrdiff_t place, Wait wait) {
        if (many_.empty() && static_cast<size_t>(size_) < kFew) {
            std::move_backward(few_.begin() + place, few_.begin() + size_, few_.begin() + size_ + 1);
            few_[static_cast<size_t>(place)] = wait;
        } else {
            if (many_.empty()) many_.assign(few_.begin(), few_.end());
            many_.insert(many_.begin() + place, wait);
        }
        ++size_;
    }

    std::array<Wait, kFew> few_{};
    int32_t size_ = 0;
    std::vector<Wait> many_;  // instead, where there are more; all of them
};

}  // namespace windlass
