// ordering.h: what the waits of a schedule guarantee, worked out by brute force and without the checker's help.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace windlass {

// What is surely done when a task starts: how many tasks of each lane. Waits are followed through other tasks.
class Ordering {
  public:
    explicit Ordering(const Schedule& schedule) {
        std::vector<std::vector<size_t>> lanes(schedule.lanes.size());
        for (size_t index = 0; index < schedule.tasks.size(); ++index) {
            const Task& task = schedule.tasks[index];
            std::vector<size_t>& lane = lanes[static_cast<size_t>(task.lane)];
            std::vector<int> done(lanes.size(), 0);
            const auto follow = [&](size_t other) {
                for (size_t i = 0; i < done.size(); ++i) done[i] = std::max(done[i], done_[other][i]);
                int& own = done[static_cast<size_t>(schedule.tasks[other].lane)];
                own = std::max(own, sequence_[other]);
            };
            if (!lane.empty()) follow(lane.back());
            for (const Wait& wait : task.after) {
                const std::vector<size_t>& other = lanes[static_cast<size_t>(wait.lane)];
                const auto last = static_cast<size_t>(wait.count) - 1;
                if (last >= other.size())
                    looks_ahead_ = true;
                else
                    follow(other[last]);
            }
            lane.push_back(index);
            sequence_.push_back(static_cast<int>(lane.size()));
            done_.push_back(done);
        }
    }
    // The first task is done before the second starts.
    bool before(const Schedule& schedule, size_t first, size_t second) const {
        return done_[second][static_cast<size_t>(schedule.tasks[first].lane)] >= sequence_[first];
    }
    int done_before(size_t task, int lane) const { return done_[task][static_cast<size_t>(lane)]; }
    bool looks_ahead() const { return looks_ahead_; }  // some task waits for one behind it in the list: deadlock

  private:
    std::vector<std::vector<int>> done_;
    std::vector<int> sequence_;  // of each task in its lane, from 1
    bool looks_ahead_ = false;
};

struct TouchedBytes {
    int64_t begin = 0, end = 0;
    bool write = false;
};

inline std::vector<TouchedBytes> touched_memory(const ScheduleSet& set, const Schedule& schedule, const Task& task) {
    std::vector<TouchedBytes> touched;
    for (const BufferUse& use : task.uses) {
        const BufferSpec& buffer = set.buffer(schedule, use.buffer);
        const int64_t tier = static_cast<int64_t>(buffer.tier) << 48;  // far apart
        touched.push_back({tier + buffer.offset + use.begin, tier + buffer.offset + use.end, use.write});
    }
    return touched;
}

// Gradients and activations on disk are written and read again within a step; of weights and state a step writes the
// version that is not current, so only a read of what was just written counts.
inline std::vector<TouchedBytes> touched_spill(const Schedule& schedule, const Task& task) {
    std::vector<TouchedBytes> touched;
    if (task.verb != Verb::move) return touched;
    const MoveTask& move = schedule.moves[static_cast<size_t>(task.payload)];
    if (move.kind == MoveKind::up || move.kind == MoveKind::down) return touched;
    const bool is_state = move.place == DiskPlace::state || move.place == DiskPlace::low;
    const int64_t place = is_state ? 1 : static_cast<int64_t>(move.place) + 2;
    for (const MovePiece& piece : move.pieces) {
        const int64_t base = (place << 58) + (int64_t{piece.param + 1} << 44);  // far apart: they share no bytes
        const int64_t count = move.place == DiskPlace::activation ? piece.bytes : piece.count;
        touched.push_back({base + piece.first, base + piece.first + count, move.kind == MoveKind::disk_write});
    }
    return touched;
}

inline bool conflict(const std::vector<TouchedBytes>& a, const std::vector<TouchedBytes>& b) {
    for (const TouchedBytes& x : a) {
        for (const TouchedBytes& y : b) {
            if ((x.write || y.write) && x.begin < y.end && y.begin < x.end) return true;
        }
    }
    return false;
}

// A write of weights or state goes to the version that nobody reads yet: it conflicts with what is read after it only.
inline bool disk_conflict(const Schedule& schedule, const std::vector<std::vector<TouchedBytes>>& spill, size_t first,
                          size_t second) {
    if (!conflict(spill[first], spill[second])) return false;
    const MoveTask& move = schedule.moves[static_cast<size_t>(schedule.tasks[first].payload)];
    const bool versioned = move.place != DiskPlace::gradient && move.place != DiskPlace::activation;
    return !versioned || move.kind == MoveKind::disk_write;
}

// Pairs of tasks that may run at the same time though they touch the same bytes and one of them writes.
inline std::vector<std::pair<size_t, size_t>> hazards(const ScheduleSet& set, const Schedule& schedule) {
    std::vector<std::vector<TouchedBytes>> memory, spill;
    for (const Task& task : schedule.tasks) {
        memory.push_back(touched_memory(set, schedule, task));
        spill.push_back(touched_spill(schedule, task));
    }
    const Ordering ordering(schedule);
    std::vector<std::pair<size_t, size_t>> found;
    for (size_t second = 0; second < schedule.tasks.size(); ++second) {
        for (size_t first = 0; first < second; ++first) {
            if (ordering.before(schedule, first, second)) continue;
            if (conflict(memory[first], memory[second]) || disk_conflict(schedule, spill, first, second))
                found.emplace_back(first, second);
        }
    }
    return found;
}

}  // namespace windlass
