// ordering.h: what the waits of a schedule keep apart, worked out by brute force and without the checker's help.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/task_order.h"

namespace windlass {

// The first task is complete before the second starts.
inline bool is_before(const Schedule& schedule, const TaskOrder& order, size_t first, size_t second) {
    return order.before(second)[static_cast<size_t>(schedule.tasks[first].lane)] >= order.sequence(first);
}

struct TouchedBytes {
    int64_t begin = 0, end = 0;
    bool write = false;
    int buffer = -1;                           // of memory
    int64_t buffer_begin = 0, buffer_end = 0;  // its place
};

// What tasks of two buffers meet in: the bytes that they touch, or the places of the buffers, which change hands whole.
enum class Meeting : uint8_t { bytes, buffers };

inline std::vector<TouchedBytes> touched_memory(const ScheduleSet& set, const Schedule& schedule, const Task& task) {
    std::vector<TouchedBytes> touched;
    for (const BufferUse& use : schedule.uses_of(task)) {
        const BufferSpec& buffer = set.buffer(schedule, use.buffer);
        const int64_t tier = static_cast<int64_t>(buffer.tier) << 48;  // far apart
        const int64_t begin = tier + buffer.offset;
        touched.push_back({begin + use.begin, begin + use.end, use.write, use.buffer, begin, begin + buffer.bytes});
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

inline bool conflict(const std::vector<TouchedBytes>& a, const std::vector<TouchedBytes>& b,
                     Meeting meeting = Meeting::bytes) {
    for (const TouchedBytes& x : a) {
        for (const TouchedBytes& y : b) {
            if ((x.write || y.write) && x.begin < y.end && y.begin < x.end) return true;
            const bool change_hands = meeting == Meeting::buffers && x.buffer != y.buffer;
            if (change_hands && x.buffer_begin < y.buffer_end && y.buffer_begin < x.buffer_end) return true;
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
inline std::vector<std::pair<size_t, size_t>> hazards(const ScheduleSet& set, const Schedule& schedule,
                                                      Meeting meeting = Meeting::bytes) {
    std::vector<std::vector<TouchedBytes>> memory, spill;
    for (const Task& task : schedule.tasks) {
        memory.push_back(touched_memory(set, schedule, task));
        spill.push_back(touched_spill(schedule, task));
    }
    const TaskOrder order(schedule);
    std::vector<std::pair<size_t, size_t>> found;
    for (size_t second = 0; second < schedule.tasks.size(); ++second) {
        for (size_t first = 0; first < second; ++first) {
            if (is_before(schedule, order, first, second)) continue;
            if (conflict(memory[first], memory[second], meeting) || disk_conflict(schedule, spill, first, second))
                found.emplace_back(first, second);
        }
    }
    return found;
}

}  // namespace windlass
