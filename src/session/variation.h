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
    std::string weight_storage;  // of what is no split master
    StateFormat state_format = StateFormat::fp32;
    int64_t micro_batch_size = 0, micro_batches = 0;
    int64_t device_bytes = 0;  // budget of the device's own memory
    std::string policy, recompute, update_time;
    int64_t step_disk_writes = 0;  // 0: as many as it likes

    bool operator==(const Variation&) const = default;
};

// The session as it is.
Variation variation_of(const Session& session);

// Nothing where it does not fit; without its schedules, which are large. The session's own plan where nothing differs.
std::optional<Planned> plan_variation(const Session& session, const Variation& variation);

Planned without_schedules(Planned planned);

// Calls plan(index) for each index below `count`, several at once: a search takes seconds, and knows nothing of others.
// Each writes to a place of its own. Where calls throw, the failure of the lowest index is thrown when all are over.
void plan_at_once(int64_t count, const std::function<void(int64_t index)>& plan);

}  // namespace windlass
