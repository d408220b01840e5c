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
        std::array<std::vector<size_t>, kLaneKinds> lanes;
        for (size_t index = 0; index < schedule.tasks.size(); ++index) {
            const Task& task = schedule.tasks[index];
            std::vector<size_t>& lane = lanes[static_cast<size_t>(task.lane)];
            std::array<int, kLaneKinds> done{};
            const auto follow = [&](size_t other) {
                for (size_t i = 0; i < done.size(); ++i) done[i] = std::max(done[i], done_[other][i]);
                int& own = done[static_cast<size_t>(schedule.tasks[other].lane)];
                own = std::max(own, sequence_[other]);
            };
            if (!lane.empty()) follow(lane.back());
            for (size_t other = 0; other < lanes.size(); ++other) {
                if (task.after[other] == 0) continue;
                const auto last = static_cast<size_t>(task.after[other]) - 1;
                if (last >= lanes[other].size())
                    looks_ahead_ = true;
                else
                    follow(lanes[other][last]);
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
    int done_before(size_t task, size_t lane) const { return done_[task][lane]; }
    bool looks_ahead() const { return looks_ahead_; }  // some task waits for one behind it in the list: deadlock

  private:
    std::vector<std::array<int, kLaneKinds>> done_;
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
        touched.push_back({buffer.offset, buffer.offset + buffer.bytes, use.write});
    }
    return touched;
}

// Gradients on disk are written and read again within a step; of weights and state a step writes what it does not read.
inline std::vector<TouchedBytes> touched_spill(const Schedule& schedule, const Task& task) {
    std::vector<TouchedBytes> touched;
    if (task.verb != Verb::move) return touched;
    const MoveTask& move = schedule.moves[static_cast<size_t>(task.payload)];
    if (move.place != DiskPlace::gradient) return touched;
    for (const MovePiece& piece : move.pieces) {
        const int64_t param = int64_t{piece.param} << 48;  // far apart: parameters do not share bytes
        touched.push_back({param + piece.first, param + piece.first + piece.count, move.to_disk});
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
            if (conflict(memory[first], memory[second]) || conflict(spill[first], spill[second]))
                found.emplace_back(first, second);
        }
    }
    return found;
}

}  // namespace windlass
