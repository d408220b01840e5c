// copies.h: copies between two memories, one task for each pair of buffers.
#pragma once

#include <vector>

#include "schedule/builder.h"

namespace windlass {

class Copies {
  public:
    Copies(MoveKind kind, DiskPlace place) : kind_(kind), place_(place) {}
    void add(int param, const BufferSlice& from, const BufferSlice& to, int64_t bytes) {
        for (MoveTask& task : tasks_) {
            if (task.source == from.buffer && task.buffer == to.buffer) return put(task, param, from, to, bytes);
        }
        tasks_.push_back({.kind = kind_, .place = place_, .buffer = to.buffer, .source = from.buffer});
        put(tasks_.back(), param, from, to, bytes);
    }
    void move(ScheduleBuilder& builder) {
        for (MoveTask& task : tasks_) builder.move(std::move(task));
        tasks_.clear();
    }

  private:
    static void put(MoveTask& task, int param, const BufferSlice& from, const BufferSlice& to, int64_t bytes) {
        task.pieces.push_back({.param = param, .offset = to.offset, .source = from.offset, .bytes = bytes});
    }
    MoveKind kind_;
    DiskPlace place_;
    std::vector<MoveTask> tasks_;
};

}  // namespace windlass
