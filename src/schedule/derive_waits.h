// derive_waits.h: what each task waits for.
#pragma once

#include "schedule/schedule.h"

namespace windlass {

// Fills Task::after of a schedule of the set whose buffers are placed. A task waits for the writers of what it uses, in
// memory or on disk, for the readers of what it writes, and for all users of a buffer whose addresses it takes over.
// Waits on the task's own lane hold by the lane's order.
void derive_waits(const ScheduleSet& set, Schedule& schedule);

}  // namespace windlass
