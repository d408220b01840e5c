// variation.h: a session planned again with something else than it has, so that `plan` can say what that would take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "session/session.h"

namespace windlass {

// What may differ from the session. Rows, their lengths, the machine and all else are the session's.
struct Variation {
    std::string method;
    std::string adapter;         // the session's, or a kind with its defaults; empty: none
    std::string weight_storage;  // of parameters without a split master
    StateFormat state_format = StateFormat::fp32;
    DType compute = DType::bf16;
    int64_t micro_batch_size = 0, micro_batches = 0;
    int64_t device_bytes = 0;  // budget of the device's own memory
    std::string policy;        // empty: any
    std::optional<bool> recompute;
    std::optional<UpdateTime> update_time;
    int64_t step_disk_writes = 0;  // 0: as many as it likes

    bool operator==(const Variation&) const = default;
};

// The session as it is.
Variation variation_of(const Session& session);

// Asked before each evaluation of a search: true ends it. Null: never. Called from several threads.
using ShouldStop = std::function<bool()>;

// Nothing where it does not fit; without its schedules, which are large. The session's own plan where nothing differs.
// Throws PlanStopped.
std::optional<Planned> plan_variation(const Session& session, const Variation& variation,
                                      const ShouldStop& should_stop = {});

Planned without_schedules(Planned planned);

// What is done with searches that run several at once: each takes seconds and knows nothing of the others.
struct SearchOrder {
    int threads = 0;                                     // 0: one for each processor
    ShouldStop should_stop;                              // no search begins after it, and those that run end
    std::function<void(int64_t index, bool done)> take;  // in order of the indices, by the caller's thread, as soon as
                                                         // all before are taken; done: false where it was stopped
    std::function<void(int64_t done)> wait;              // by the caller's thread, a few times a second; null: nothing
};

// Calls plan(index, should_stop) for each index below `count`, on threads of its own; each writes to a place of its own
// and may throw PlanStopped. Another failure of a search, or one of take(), ends the others and is thrown.
void plan_in_order(int64_t count, const std::function<void(int64_t index, const ShouldStop& should_stop)>& plan,
                   const SearchOrder& order);

}  // namespace windlass
