#include "schedule/derive_waits.h"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "schedule/wait_rows.h"

namespace windlass {
namespace {

class WaitDerivation {
  public:
    WaitDerivation(const ScheduleSet& set, Schedule& schedule)
        : schedule_(schedule), persistent_(set.persistent.size()), tenants_(set.tiers.size(), &memory_) {
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
            for (const BufferUse& use : task.uses) {
                if (use.begin < use.end) history_[at(use.buffer)].use(use, self, after, rows_);
                if (at(use.buffer) >= persistent_) rows_.raise(users_[at(use.buffer) - persistent_], self);
            }
            if (task.verb == Verb::move) order_on_disk(schedule_.moves[at(task.payload)], self, after);
            if (task.verb == Verb::mark) rows_.raise(after, deferred);
            if (task.when != When::always || task.verb == Verb::materialize) rows_.raise(deferred, self);
            if (needs_norm(task)) rows_.raise(after, norm);
            if (task.verb == Verb::reduce && schedule_.reduces[at(task.payload)].decides()) rows_.raise(norm, self);
            task.after = rows_.waits(after, task.lane);
        }
    }

  private:
    // The transient buffers, in the order in which tasks come to use them.
    std::vector<size_t> by_first_use() const {
        std::vector<size_t> order(schedule_.buffers.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
            return schedule_.buffers[a].first < schedule_.buffers[b].first;
        });
        return order;
    }

    bool needs_norm(const Task& task) const {
        return task.verb == Verb::update && task.when == When::always &&
               !schedule_.updates[at(task.payload)].speculative;
    }

    // The buffer's first task waits for all users of the buffers that had its addresses before.
    void take_over(size_t buffer, int32_t after) {
        const BufferSpec& spec = schedule_.buffers[buffer];
        const int64_t begin = spec.offset, end = begin + spec.bytes;
        std::pmr::map<int64_t, Tenant>& tenants = tenants_[at(spec.tier)];
        auto part = tenants.upper_bound(begin);
        if (part != tenants.begin() && std::prev(part)->second.end > begin) --part;
        while (part != tenants.end() && part->first < end) {
            const auto [first, tenant] = *part;
            rows_.raise(after, users_[tenant.buffer]);
            part = tenants.erase(part);
            if (first < begin) tenants[first] = {begin, tenant.buffer};
            if (tenant.end > end) part = std::next(tenants.insert({end, tenant}).first);
        }
        if (begin < end) tenants[begin] = {end, buffer};
    }

    // What a step writes to the disk and reads again. Gradients and activations are written over; weights and state go
    // to the version that is not current, so a write never waits, but a read needs what was written before it.
    void order_on_disk(const MoveTask& move, Wait self, int32_t after) {
        if (move.kind == MoveKind::up || move.kind == MoveKind::down) return;
        const bool writes = move.kind == MoveKind::disk_write;
        const bool versioned = move.place != DiskPlace::gradient && move.place != DiskPlace::activation;
        const DiskPlace place = move.place == DiskPlace::low ? DiskPlace::state : move.place;
        int64_t last = -1;
        for (const MovePiece& piece : move.pieces) {
            const int64_t key = place == DiskPlace::activation ? piece.first : piece.param;
            if (std::exchange(last, key) == key) continue;  // a parameter's pieces mostly come together
            const auto [users, is_new] = on_disk_.try_emplace({place, key}, 0);
            if (is_new) users->second = rows_.add();
            if (!versioned || !writes) rows_.raise(after, users->second);
            if (!versioned || writes) rows_.raise(users->second, self);
        }
    }

    struct Tenant {
        int64_t end = 0;  // of a part of the arena
        size_t buffer = 0;
    };

    Schedule& schedule_;
    const size_t persistent_;  // buffers
    // Of the many small things below: given back all at once.
    std::pmr::monotonic_buffer_resource memory_{size_t{1} << 16};
    WaitRows rows_{schedule_.lanes.size()};
    std::vector<ByteHistory> history_;  // by buffer
    std::vector<int32_t> users_;        // rows, by transient buffer
    // By tier, and where a part of its arena begins: the last buffer there.
    std::pmr::vector<std::pmr::map<int64_t, Tenant>> tenants_;
    std::pmr::map<std::pair<DiskPlace, int64_t>, int32_t> on_disk_{&memory_};  // by parameter or place: its users
};

}  // namespace

void derive_waits(const ScheduleSet& set, Schedule& schedule) {
    WaitDerivation(set, schedule).run();
}

}  // namespace windlass
