#include "schedule/derive_waits.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory_resource>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "schedule/wait_rows.h"

namespace windlass {
namespace {

// Waits follow from the bytes that tasks name, not from what tasks are: a new kernel needs no rule here. The rules that
// are here are for what no buffer shows: the disk, decisions, and the mark of a deferred update.
class WaitDerivation {
  public:
    WaitDerivation(const ScheduleSet& set, Schedule& schedule)
        : schedule_(schedule), persistent_(set.persistent.size()), tenants_(set.tiers.size()) {
        rows_.reserve(3 * (persistent_ + schedule.buffers.size()));
        history_.reserve(persistent_ + schedule.buffers.size());
        for (const BufferSpec& buffer : set.persistent) history_.emplace_back(buffer.bytes, &memory_);
        for (const BufferSpec& buffer : schedule.buffers) history_.emplace_back(buffer.bytes, &memory_);
        for (size_t buffer = 0; buffer < schedule.buffers.size(); ++buffer) users_.push_back(rows_.add());
    }

    void run() {
        const std::vector<size_t> born = by_first_use();
        auto next = born.begin();
        std::vector<int> done(schedule_.lanes.size(), 0);  // tasks so far, by lane
        const int32_t after = rows_.add();
        const int32_t deferred = rows_.add();  // the last tasks of the update that the step before deferred
        const int32_t norm = rows_.add();      // the one that finds the norm
        for (size_t index = 0; index < schedule_.tasks.size(); ++index) {
            Task& task = schedule_.tasks[index];
            const Wait self{task.lane, ++done[at(task.lane)]};
            rows_.clear(after);
            for (; next != born.end() && at(schedule_.buffers[*next].first) == index; ++next) take_over(*next, after);
            for (const BufferUse& use : schedule_.uses_of(task)) {
                if (use.begin < use.end) history_[at(use.buffer)].use(use, self, after, rows_);
                if (at(use.buffer) >= persistent_) rows_.raise(users_[at(use.buffer) - persistent_], self);
            }
            if (task.verb == Verb::move) order_on_disk(schedule_.moves[at(task.payload)], self, after);
            // A mark commits the step before, so it waits for all tasks of that step's update, whatever lane and bytes
            // they use.
            if (is_mark(task)) rows_.raise(after, deferred);
            if (task.when != When::always || makes_what_is_read(task)) rows_.raise(deferred, self);
            // No buffer links an update with the decision, whose result is an argument of kernels: without this an
            // update could start before the clip factor is known.
            if (needs_norm(task)) rows_.raise(after, norm);
            if (task.verb == Verb::host && !is_mark(task)) rows_.raise(norm, self);
            task.after = rows_.waits(after, task.lane);
        }
    }

  private:
    // The transient buffers, in the order in which tasks come to use them.
    std::vector<size_t> by_first_use() const {
        std::vector<size_t> end(schedule_.tasks.size() + 1, 0);  // by task: where those are that are used before it
        for (const BufferSpec& buffer : schedule_.buffers) ++end[at(buffer.first) + 1];
        std::partial_sum(end.begin(), end.end(), end.begin());
        std::vector<size_t> order(schedule_.buffers.size());
        for (size_t index = 0; index < order.size(); ++index) order[end[at(schedule_.buffers[index].first)]++] = index;
        return order;
    }

    bool needs_norm(const Task& task) const {
        // A deferred update goes by the step before, whose norm is known.
        if (task.verb != Verb::param || task.when != When::always) return false;
        const ParamTask& param = schedule_.params[at(task.payload)];
        return param.kernel->is_update && !param.speculative;
    }
    bool is_mark(const Task& task) const {
        return task.verb == Verb::host && !schedule_.hosts[at(task.payload)].decides;
    }
    bool makes_what_is_read(const Task& task) const {
        return task.verb == Verb::param && schedule_.params[at(task.payload)].uses(ParamSlot::plain);
    }

    // The buffer's first task waits for all users of the buffers that had its addresses before.
    void take_over(size_t buffer, int32_t after) {
        // The last tenant of each byte is enough: its own first task waited for those before it.
        const BufferSpec& spec = schedule_.buffers[buffer];
        const int64_t begin = spec.offset, end = begin + spec.bytes;
        if (begin == end) return;
        std::vector<Tenant>& tenants = tenants_[at(spec.tier)];
        const auto first = std::ranges::upper_bound(tenants, begin, {}, &Tenant::end);
        auto last = first;
        for (; last != tenants.end() && last->begin < end; ++last) rows_.raise(after, users_[last->buffer]);
        // What is left of the first and of the last, and the new one between them.
        std::array<Tenant, 3> parts;
        size_t count = 0;
        if (first != last && first->begin < begin) parts[count++] = {first->begin, begin, first->buffer};
        parts[count++] = {begin, end, buffer};
        if (first != last && std::prev(last)->end > end)
            parts[count++] = {end, std::prev(last)->end, std::prev(last)->buffer};
        const auto kept = static_cast<std::ptrdiff_t>(std::min(count, static_cast<size_t>(last - first)));
        std::copy_n(parts.begin(), kept, first);
        if (first + kept != last)
            tenants.erase(first + kept, last);
        else
            tenants.insert(last, parts.begin() + kept, parts.begin() + static_cast<std::ptrdiff_t>(count));
    }

    // What a step writes to the disk and reads again. Gradients and activations are written over; weights and state go
    // to the version that is not current, so a write never waits, but a read needs what was written before it.
    void order_on_disk(const MoveTask& move, Wait self, int32_t after) {
        if (move.kind != MoveKind::disk_read && move.kind != MoveKind::disk_write) return;
        const bool writes = move.kind == MoveKind::disk_write;
        const bool versioned = move.place != DiskPlace::gradient && move.place != DiskPlace::activation;
        // Low halves are the head of a chunk's state on disk.
        const DiskPlace place = move.place == DiskPlace::low ? DiskPlace::state : move.place;
        int64_t last = -1;
        for (const MovePiece& piece : move.pieces) {
            const int64_t key = place == DiskPlace::activation ? piece.first : piece.param;
            if (std::exchange(last, key) == key) continue;  // a parameter's pieces mostly come together
            const int32_t users = users_on_disk(place, key);
            if (!versioned || !writes) rows_.raise(after, users);
            if (!versioned || writes) rows_.raise(users, self);
        }
    }

    int32_t users_on_disk(DiskPlace place, int64_t key) {
        if (place == DiskPlace::activation) {
            const auto [users, is_new] = spilled_.try_emplace(key, -1);
            return is_new ? users->second = rows_.add() : users->second;
        }
        std::vector<int32_t>& by_param = on_disk_[at(static_cast<int>(place))];
        if (by_param.size() <= at(key)) by_param.resize(at(key) + 1, -1);
        int32_t& users = by_param[at(key)];
        return users < 0 ? users = rows_.add() : users;
    }

    // A part of an arena, and the last buffer there.
    struct Tenant {
        int64_t begin = 0, end = 0;
        size_t buffer = 0;
    };

    Schedule& schedule_;
    const size_t persistent_;  // buffers
    // Of the many small things below: given back all at once.
    std::pmr::monotonic_buffer_resource memory_{size_t{1} << 16};
    WaitRows rows_{schedule_.lanes.size()};
    std::vector<ByteHistory> history_;          // by buffer
    std::vector<int32_t> users_;                // rows, by transient buffer
    std::vector<std::vector<Tenant>> tenants_;  // by tier, by rising address
    // Rows of users of what is on disk; -1: none so far.
    std::array<std::vector<int32_t>, kDiskPlaces> on_disk_;  // by parameter
    std::pmr::map<int64_t, int32_t> spilled_{&memory_};      // by place in the file of activations
};

}  // namespace

void derive_waits(const ScheduleSet& set, Schedule& schedule) {
    WaitDerivation(set, schedule).run();
}

}  // namespace windlass
