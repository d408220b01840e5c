// copies.h: copies between two memories, one task for each pair of buffers.
#pragma once

#include <vector>

#include "schedule/builder.h"

namespace windlass {

class Copies {
  public:
    Copies(MoveKind kind, DiskPlace place) : kind_(kind), place_(place) {}
    // `count`: elements, if it is copied chunk by chunk.
    void add(int param, const BufferSlice& from, const BufferSlice& to, int64_t bytes, int64_t count = 0) {
        const MovePiece piece{
            .param = param, .count = count, .offset = to.offset, .source = from.offset, .bytes = bytes};
        for (MoveTask& task : tasks_) {
            if (task.source == from.buffer && task.buffer == to.buffer) return task.pieces.push_back(piece);
        }
        tasks_.push_back({.kind = kind_, .place = place_, .buffer = to.buffer, .source = from.buffer});
        tasks_.back().pieces.push_back(piece);
    }
    void move(ScheduleBuilder& builder) {
        for (MoveTask& task : tasks_) builder.move(std::move(task));
        tasks_.clear();
    }

  private:
    MoveKind kind_;
    DiskPlace place_;
    std::vector<MoveTask> tasks_;
};

}  // namespace windlass
