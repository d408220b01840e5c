#include "schedule/check.h"

#include <algorithm>
#include <map>

#include "base/math.h"
#include "model/liveness.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

using Waits = std::array<int, kLaneKinds>;

size_t at(int index) {
    return static_cast<size_t>(index);
}
size_t at(LaneKind lane) {
    return static_cast<size_t>(lane);
}

void wait_for(Waits& waits, const Waits& others) {
    for (size_t lane = 0; lane < waits.size(); ++lane) waits[lane] = std::max(waits[lane], others[lane]);
}

class Checker {
  public:
    Checker(ScheduleSet& set, Schedule& schedule) : set_(set), schedule_(schedule) {}

    void run() {
        find_lifetimes();
        place();
        derive_waits();
    }

  private:
    bool persistent(BufferId id) const { return at(id) < set_.persistent.size(); }
    BufferSpec& transient(BufferId id) { return schedule_.buffers[at(id) - set_.persistent.size()]; }

    void find_lifetimes() {
        std::vector<bool> written(schedule_.buffers.size(), false);
        for (size_t index = 0; index < schedule_.tasks.size(); ++index) {
            const Task& task = schedule_.tasks[index];
            for (const BufferUse& use : task.uses) {
                WINDLASS_CHECK(use.buffer != kNoBuffer, "task {} of {} uses a buffer that was never made", index,
                               schedule_.name);
                if (persistent(use.buffer)) continue;
                BufferSpec& buffer = transient(use.buffer);
                const size_t own = at(use.buffer) - set_.persistent.size();
                WINDLASS_CHECK(use.write || written[own], "{} reads {}, which nobody wrote", schedule_.name,
                               buffer.name);
                written[own] = true;
                if (buffer.first < 0) buffer.first = static_cast<int>(index);
                buffer.last = static_cast<int>(index);
            }
        }
        for (BufferSpec& buffer : schedule_.buffers)
            WINDLASS_CHECK(buffer.first >= 0, "{}: nobody uses {}", schedule_.name, buffer.name);
        for (const BufferSlice& output : schedule_.outputs) {
            // Results are read after the last task.
            if (output.buffer != kNoBuffer) transient(output.buffer).last = static_cast<int>(schedule_.tasks.size());
        }
    }

    void place() {
        std::vector<LivePiece> pieces;
        for (const BufferSpec& buffer : schedule_.buffers)
            pieces.push_back({.bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
        schedule_.transient_bytes = place_pieces(pieces, kParamAlignment);
        for (size_t index = 0; index < pieces.size(); ++index)
            schedule_.buffers[index].offset = set_.persistent_bytes + pieces[index].offset;
    }

    // A task waits for whoever wrote what it uses, in memory or on disk, for the readers of what it writes, and for all
    // users of a buffer whose addresses it takes over. Waits on the task's own lane hold by the lane's order.
    void derive_waits() {
        std::map<BufferId, Waits> writers, readers;
        std::vector<Waits> users(schedule_.buffers.size(), Waits{});
        std::vector<std::vector<size_t>> born(schedule_.tasks.size());
        for (size_t index = 0; index < schedule_.buffers.size(); ++index)
            born[at(schedule_.buffers[index].first)].push_back(index);
        Waits done{};  // tasks so far, by lane
        for (size_t index = 0; index < schedule_.tasks.size(); ++index) {
            Task& task = schedule_.tasks[index];
            task.after = {};
            for (const size_t buffer : born[index]) take_over(buffer, users, task.after);
            for (const BufferUse& use : task.uses) {
                wait_for(task.after, writers[use.buffer]);
                if (use.write) wait_for(task.after, readers[use.buffer]);
            }
            if (task.verb == Verb::move) wait_for_disk(schedule_.moves[at(task.payload)], task.after);
            const int sequence = ++done[at(task.lane)];
            if (task.verb == Verb::move) note_disk(schedule_.moves[at(task.payload)], task.lane, sequence);
            for (const BufferUse& use : task.uses) {
                (use.write ? writers : readers)[use.buffer][at(task.lane)] = sequence;
                if (!persistent(use.buffer)) users[at(use.buffer) - set_.persistent.size()][at(task.lane)] = sequence;
            }
            task.after[at(task.lane)] = 0;
        }
    }

    // The buffer's first task waits for all users of the buffers that had its addresses before.
    void take_over(size_t buffer, const std::vector<Waits>& users, Waits& after) {
        const int64_t begin = schedule_.buffers[buffer].offset, end = begin + schedule_.buffers[buffer].bytes;
        auto part = tenants_.upper_bound(begin);
        if (part != tenants_.begin() && std::prev(part)->second.end > begin) --part;
        while (part != tenants_.end() && part->first < end) {
            const auto [first, tenant] = *part;
            wait_for(after, users[tenant.buffer]);
            part = tenants_.erase(part);
            if (first < begin) tenants_[first] = {begin, tenant.buffer};
            if (tenant.end > end) part = std::next(tenants_.insert({end, tenant}).first);
        }
        if (begin < end) tenants_[begin] = {end, buffer};
    }

    // Gradients that went to the disk are read back in the same step. Weights and state are not: a step writes the
    // version that it does not read.
    void wait_for_disk(const MoveTask& move, Waits& after) {
        if (move.place != DiskPlace::gradient) return;
        for (const MovePiece& piece : move.pieces) wait_for(after, spilled_[piece.param]);
    }
    void note_disk(const MoveTask& move, LaneKind lane, int sequence) {
        if (move.place != DiskPlace::gradient) return;
        for (const MovePiece& piece : move.pieces) spilled_[piece.param][at(lane)] = sequence;
    }

    struct Tenant {
        int64_t end = 0;  // of a part of the arena
        size_t buffer = 0;
    };

    ScheduleSet& set_;
    Schedule& schedule_;
    std::map<int64_t, Tenant> tenants_;  // by where the part begins: the buffer that had it last
    std::map<int, Waits> spilled_;       // by parameter: who last touched its gradient on disk
};

}  // namespace

void check(ScheduleSet& set) {
    set.persistent_bytes = 0;
    for (BufferSpec& buffer : set.persistent) {
        buffer.offset = set.persistent_bytes;
        set.persistent_bytes += round_up(buffer.bytes, kParamAlignment);
    }
    int64_t transient = 0;
    for (Schedule& schedule : set.schedules) {
        Checker(set, schedule).run();
        transient = std::max(transient, schedule.transient_bytes);
    }
    set.arena_bytes = set.persistent_bytes + transient;
}

std::array<int64_t, kOwners> peak_by_owner(const ScheduleSet& set) {
    std::array<int64_t, kOwners> bytes{};
    for (const BufferSpec& buffer : set.persistent) bytes[static_cast<size_t>(buffer.owner)] += buffer.bytes;
    const Schedule* largest = nullptr;
    for (const Schedule& schedule : set.schedules) {
        if (largest == nullptr || schedule.transient_bytes > largest->transient_bytes) largest = &schedule;
    }
    if (largest == nullptr) return bytes;
    // The task during which most transient bytes are alive.
    std::vector<int64_t> change(largest->tasks.size() + 2, 0);
    for (const BufferSpec& buffer : largest->buffers) {
        change[at(buffer.first)] += buffer.bytes;
        change[at(buffer.last) + 1] -= buffer.bytes;
    }
    int64_t alive = 0, most = -1;
    int peak = 0;
    for (size_t index = 0; index < change.size(); ++index) {
        alive += change[index];
        if (alive > most) most = alive, peak = static_cast<int>(index);
    }
    for (const BufferSpec& buffer : largest->buffers) {
        if (buffer.first <= peak && peak <= buffer.last) bytes[static_cast<size_t>(buffer.owner)] += buffer.bytes;
    }
    return bytes;
}

}  // namespace windlass
