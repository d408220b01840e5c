#include "papers/lsp_zero_offload.h"

#include <iterator>

#include "base/index.h"
#include "schedule/check.h"
#include "schedule/lower.h"
#include "schedule/simulate.h"

namespace windlass {

void wait_for_all_updates(ScheduleSet& set) {
    Schedule& schedule = set.schedules[0];
    BufferUse last;
    std::vector<Task> before, behind;
    for (Task& task : schedule.tasks) {
        const bool goes_up = task.verb == Verb::move && schedule.moves[at(task.payload)].kind == MoveKind::up;
        if (task.verb == Verb::param && schedule.params[at(task.payload)].kernel->is_update) {
            const ParamChunk& chunk = schedule.params[at(task.payload)].chunks[0];
            last = {chunk.low.buffer, false, chunk.low.offset, chunk.low.offset + 1};
        }
        (goes_up && last.buffer != kNoBuffer ? behind : before).push_back(std::move(task));
    }
    for (Task& task : behind) {
        const std::span<const BufferUse> own = schedule.uses_of(task);
        std::vector<BufferUse> uses(own.begin(), own.end());
        uses.push_back(last);
        task.first_use = static_cast<int>(schedule.uses.size());
        task.use_count = static_cast<int>(uses.size());
        schedule.uses.insert(schedule.uses.end(), uses.begin(), uses.end());
    }
    before.insert(before.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
    schedule.tasks = std::move(before);
}

ZeroOffloadStep zero_offload_step(const TrainedModel& model, const Numerics& numerics, const Machine& machine) {
    constexpr int kGroupChunks = 16;
    const Plan plan{.policy = "host_stream",
                    .device = {DeviceKind::fake, 0, true},
                    .threads = machine.threads,
                    .host_threads = machine.threads,
                    .read_ahead = 3,
                    .group_chunks = kGroupChunks,
                    .common = {.weights = Home::device,
                               .state = Home::host,
                               .gradients = Home::host,
                               .update = UpdateTime::after_backward,
                               .recompute = true}};
    ScheduleSet set = lower(model, make_recipe("adamw", {}), numerics, plan,
                            {{ScheduleRequest::Kind::train, numerics.micro_batch_size, numerics.sequence_lengths[0],
                              static_cast<int>(numerics.micro_batches)}});
    wait_for_all_updates(set);
    check(set);
    return {simulate(set.schedules[0], machine).seconds, set.by_kind(set.arena_bytes)[slot(TierKind::device)]};
}

}  // namespace windlass
