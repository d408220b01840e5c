#include "schedule/check.h"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/index.h"
#include "base/math.h"
#include "model/liveness.h"
#include "schedule/derive_waits.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

// Lifetimes follow from uses: no lowering frees a buffer, so none can free it too early or forget to. A plan's bytes
// are those of its tasks, and no claim of a lowering.
class Placement {
  public:
    Placement(ScheduleSet& set, Schedule& schedule) : set_(set), schedule_(schedule) {}

    void run() {
        find_lifetimes();
        schedule_.transient_bytes.assign(set_.tiers.size(), 0);
        for (size_t tier = 0; tier < set_.tiers.size(); ++tier) place(tier);
    }

  private:
    bool persistent(BufferId id) const { return at(id) < set_.persistent.size(); }
    BufferSpec& transient(BufferId id) { return schedule_.buffers[at(id) - set_.persistent.size()]; }

    // A CPU reaches every address, so a wrong lane would pass all tests there and fault on a device.
    bool reaches(int lane, int tier) const {
        const LaneKind kind = schedule_.lanes[at(lane)].kind;
        const bool of_device = kind == LaneKind::compute || kind == LaneKind::up || kind == LaneKind::down;
        return of_device || !set_.own_memory || set_.tiers[at(tier)].kind == TierKind::host;
    }

    void find_lifetimes() {
        std::vector<bool> written(schedule_.buffers.size(), false);
        for (size_t index = 0; index < schedule_.tasks.size(); ++index) {
            for (BufferUse& use : schedule_.uses_of(schedule_.tasks[index])) {
                WINDLASS_CHECK(use.buffer != kNoBuffer, "task {} of {} uses a buffer that was never made", index,
                               schedule_.name);
                const BufferSpec& spec = set_.buffer(schedule_, use.buffer);
                WINDLASS_CHECK(reaches(schedule_.tasks[index].lane, spec.tier),
                               "task {} of {}, of lane {}, cannot reach {}", index, schedule_.name,
                               lane_name(schedule_.lanes[at(schedule_.tasks[index].lane)].kind), buffer_text(spec));
                if (use.end < 0) use.end = spec.bytes;
                WINDLASS_CHECK(
                    // Up to the end of the last block: direct transfers move whole blocks of the disk.
                    use.begin >= 0 && use.begin <= use.end && use.end <= round_up(spec.bytes, kParamAlignment),
                    "task {} of {} uses bytes [{}, {}) of {}, which has {}", index, schedule_.name, use.begin, use.end,
                    buffer_text(spec), spec.bytes);
                // Persistent buffers were written by loading, or by an earlier schedule.
                if (persistent(use.buffer)) continue;
                BufferSpec& buffer = transient(use.buffer);
                const size_t own = at(use.buffer) - set_.persistent.size();
                WINDLASS_CHECK(use.write || written[own], "{} reads {}, which no task wrote", schedule_.name,
                               buffer_text(buffer));
                written[own] = true;
                if (buffer.first < 0) buffer.first = static_cast<int>(index);
                buffer.last = static_cast<int>(index);
            }
        }
        // A buffer that no task uses has no life to place: some task lacks a use.
        for (BufferSpec& buffer : schedule_.buffers)
            WINDLASS_CHECK(buffer.first >= 0, "{}: no task uses {}", schedule_.name, buffer_text(buffer));
        for (const BufferSlice& output : schedule_.outputs) {
            // Results are read after the last task.
            if (output.buffer != kNoBuffer) transient(output.buffer).last = static_cast<int>(schedule_.tasks.size());
        }
    }

    void place(size_t tier) {
        std::vector<LivePiece> pieces;
        std::vector<size_t> buffers;
        for (size_t index = 0; index < schedule_.buffers.size(); ++index) {
            const BufferSpec& buffer = schedule_.buffers[index];
            if (at(buffer.tier) != tier) continue;
            pieces.push_back({.bytes = buffer.bytes, .first = buffer.first, .last = buffer.last});
            buffers.push_back(index);
        }
        schedule_.transient_bytes[tier] = place_pieces(pieces, kParamAlignment);
        for (size_t i = 0; i < pieces.size(); ++i)
            schedule_.buffers[buffers[i]].offset = set_.persistent_bytes[tier] + pieces[i].offset;
    }

    ScheduleSet& set_;
    Schedule& schedule_;
};

// What deferred updates forbid: a read of what they have not changed yet.
class DeferredOrder {
  public:
    explicit DeferredOrder(const Schedule& schedule) : schedule_(schedule) {}

    void require() {
        const bool defers =
            std::ranges::any_of(schedule_.tasks, [](const Task& task) { return task.when != When::always; });
        for (const Task& task : schedule_.tasks) {
            if (defers && task.verb == Verb::move) refuse_stale_reads(task);
            if (task.verb == Verb::param) refuse_late_updates(schedule_.params[at(task.payload)]);
        }
    }

  private:
    // What a deferred update writes may have been read once before, for that update: any other reader got the weights
    // of the step before.
    void refuse_stale_reads(const Task& task) {
        const MoveTask& move = schedule_.moves[at(task.payload)];
        if (move.kind == MoveKind::up || move.kind == MoveKind::down) return refuse_stale_copies(task, move);
        if (move.place != DiskPlace::weight) return;
        for (const MovePiece& piece : move.pieces) {
            if (move.kind == MoveKind::disk_read) ++reads_[{piece.param, piece.first}];
            if (move.kind != MoveKind::disk_write || task.when == When::always) continue;
            const auto reads = reads_.find({piece.param, piece.first});
            WINDLASS_CHECK(reads == reads_.end() || reads->second <= 1,
                           "{}: element {} of parameter {} is read before its update", schedule_.name, piece.first,
                           piece.param);
        }
    }

    // The same for copies that go up to the device and come down again.
    void refuse_stale_copies(const Task& task, const MoveTask& move) {
        for (const MovePiece& piece : move.pieces) {
            if (move.kind == MoveKind::up) ++copies_[{move.source, piece.source}];
            if (move.kind != MoveKind::down || task.when == When::always) continue;
            const auto copies = copies_.find({move.buffer, piece.offset});
            WINDLASS_CHECK(copies == copies_.end() || copies->second <= 1, "{}: parameter {} goes up before its update",
                           schedule_.name, piece.param);
        }
    }

    // A parameter is updated once, when it is first materialized.
    void refuse_late_updates(const ParamTask& task) {
        if (!task.uses(ParamSlot::plain)) return;
        for (const ParamChunk& each : task.chunks) {
            const bool is_first = seen_.insert(each.param).second;
            WINDLASS_CHECK(is_first || !each.updates, "{}: parameter {} is updated after it was read", schedule_.name,
                           each.param);
        }
    }

    // Of a parameter, or buffer, and where a piece of it begins.
    struct PieceHash {
        size_t operator()(const std::pair<int, int64_t>& piece) const {
            return std::hash<int64_t>()(piece.second * 1000003 + piece.first);
        }
    };
    using PieceCounts = std::pmr::unordered_map<std::pair<int, int64_t>, int, PieceHash>;

    const Schedule& schedule_;
    std::pmr::monotonic_buffer_resource memory_{size_t{1} << 14};  // of the counts: given back all at once
    PieceCounts reads_{&memory_};                                  // of weights on disk, by parameter and element
    PieceCounts copies_{&memory_};                                 // up, by where they are from
    std::set<int> seen_;                                           // parameters
};

using Ranges = std::vector<std::pair<int64_t, int64_t>>;  // [begin, end)

// Bytes of the versions kept for wrong guesses that a schedule writes, or reads; by buffer, rising, touching ones
// joined.
std::map<BufferId, Ranges> kept_bytes_of(const ScheduleSet& set, const Schedule& schedule, bool write) {
    std::map<BufferId, Ranges> by_buffer;
    for (const Task& task : schedule.tasks) {
        for (const BufferUse& use : schedule.uses_of(task)) {
            if (use.write == write && set.buffer(schedule, use.buffer).tag == MemoryTag::kept)
                by_buffer[use.buffer].emplace_back(use.begin, use.end);
        }
    }
    for (auto& [buffer, ranges] : by_buffer) {
        std::sort(ranges.begin(), ranges.end());
        Ranges joined;
        for (const auto& [begin, end] : ranges) {
            if (joined.empty() || joined.back().second < begin)
                joined.emplace_back(begin, end);
            else
                joined.back().second = std::max(joined.back().second, end);
        }
        ranges = std::move(joined);
    }
    return by_buffer;
}

bool holds(const std::map<BufferId, Ranges>& all, BufferId buffer, const std::pair<int64_t, int64_t>& range) {
    const auto found = all.find(buffer);
    return found != all.end() && std::any_of(found->second.begin(), found->second.end(), [&](const auto& each) {
               return each.first <= range.first && range.second <= each.second;
           });
}

// A wrong guess can be taken back: what it overwrites is in a store, or kept by a task before it; and
// what one schedule goes back to, every schedule that speculates has kept.
void require_way_back(const ScheduleSet& set) {
    std::vector<const Schedule*> speculating;
    for (const Schedule& schedule : set.schedules) {
        bool speculates = false;
        std::set<std::pair<int, int64_t>> kept_before;  // chunks
        for (const ParamTask& task : schedule.params) {
            const bool keeps = task.kernel->writes(ParamSlot::kept),
                       guesses = task.kernel->is_update && task.speculative;
            speculates = speculates || guesses;
            for (const ParamChunk& chunk : task.chunks) {
                if (keeps) kept_before.emplace(chunk.param, chunk.first);
                WINDLASS_CHECK(
                    !guesses || chunk.block.buffer != kNoBuffer || kept_before.contains({chunk.param, chunk.first}),
                    "{} speculates an update of parameter {} and keeps nothing to go back to", schedule.name,
                    chunk.param);
            }
        }
        if (speculates) speculating.push_back(&schedule);
    }
    const auto is_kept = [](const BufferSpec& buffer) { return buffer.tag == MemoryTag::kept; };
    // With a store the version before a guess is on disk, which needs no proof here.
    if (std::none_of(set.persistent.begin(), set.persistent.end(), is_kept)) return;
    for (const Schedule& schedule : set.schedules) {
        const std::map<BufferId, Ranges> wanted = kept_bytes_of(set, schedule, false);
        if (wanted.empty()) continue;
        WINDLASS_CHECK(!speculating.empty(), "{} goes back to what no schedule kept", schedule.name);
        for (const Schedule* guess : speculating) {
            const std::map<BufferId, Ranges> kept = kept_bytes_of(set, *guess, true);
            for (const auto& [buffer, ranges] : wanted) {
                for (const auto& range : ranges)
                    WINDLASS_CHECK(holds(kept, buffer, range),
                                   "{} goes back to bytes [{}, {}) of {}, which {} did not keep", schedule.name,
                                   range.first, range.second, buffer_text(set.buffer(schedule, buffer)), guess->name);
            }
        }
    }
}

void place_persistent(ScheduleSet& set) {
    set.persistent_bytes.assign(set.tiers.size(), 0);
    for (BufferSpec& buffer : set.persistent) {
        int64_t& end = set.persistent_bytes[at(buffer.tier)];
        buffer.offset = end;
        end += round_up(buffer.bytes, kParamAlignment);
    }
}

void sum_arenas(ScheduleSet& set) {
    set.arena_bytes = set.persistent_bytes;
    for (size_t tier = 0; tier < set.tiers.size(); ++tier) {
        // One schedule runs at a time, so all of them use the same addresses after the persistent buffers.
        int64_t most = 0;
        for (const Schedule& schedule : set.schedules) most = std::max(most, schedule.transient_bytes[tier]);
        set.arena_bytes[tier] += most;
    }
}

}  // namespace

void check(ScheduleSet& set) {
    check_each(set);
    require_way_back(set);
}

void check_each(ScheduleSet& set) {
    // Addresses first: a buffer also waits for those that had its bytes before.
    place_buffers(set);
    for (Schedule& schedule : set.schedules) {
        DeferredOrder(schedule).require();
        derive_waits(set, schedule);
    }
}

void place_buffers(ScheduleSet& set) {
    place_persistent(set);
    for (Schedule& schedule : set.schedules) Placement(set, schedule).run();
    sum_arenas(set);
}

std::array<int64_t, kMemoryTags> peak_by_tag(const ScheduleSet& set, int tier) {
    std::array<int64_t, kMemoryTags> bytes{};
    for (const BufferSpec& buffer : set.persistent) {
        if (buffer.tier == tier) bytes[static_cast<size_t>(buffer.tag)] += buffer.bytes;
    }
    const auto less = [&](const Schedule& a, const Schedule& b) {
        return a.transient_bytes[at(tier)] < b.transient_bytes[at(tier)];
    };
    // Tags are counted at one moment, that of the peak: the peaks of single tags lie at different moments and would not
    // add up to the arena.
    const auto largest = std::max_element(set.schedules.begin(), set.schedules.end(), less);
    if (largest == set.schedules.end()) return bytes;
    // The task during which most transient bytes are alive.
    std::vector<int64_t> change(largest->tasks.size() + 2, 0);
    for (const BufferSpec& buffer : largest->buffers) {
        if (buffer.tier != tier) continue;
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
        if (buffer.tier == tier && buffer.first <= peak && peak <= buffer.last)
            bytes[static_cast<size_t>(buffer.tag)] += buffer.bytes;
    }
    return bytes;
}

}  // namespace windlass
