// check.h: proves a schedule before it runs: places every buffer, derives every wait, finds the peak.
//
// After check a run needs ScheduleSet::arena_bytes of each tier's memory and not a byte more: a plan that passes cannot
// run out of memory. Aborts (our bug) on a read of unwritten bytes, on a use of bytes that a buffer does not have, and
// on a guess that could not be taken back.
#pragma once

#include <array>
#include <cstdint>

#include "schedule/schedule.h"

namespace windlass {

void check(ScheduleSet& set);

// The same of each schedule by itself: of one without those that keep what it goes back to, to be simulated and not
// run.
void check_each(ScheduleSet& set);

// Places buffers and finds the peaks, and proves nothing: of schedules that are weighed and never run.
void place_buffers(ScheduleSet& set);

// Bytes of a tier by tag at the moment of its peak, persistent ones included.
std::array<int64_t, kMemoryTags> peak_by_tag(const ScheduleSet& set, int tier);

}  // namespace windlass
