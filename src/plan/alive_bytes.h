// alive_bytes.h: how many bytes are alive at one time.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace windlass {

// The most bytes of transient buffers that are alive at one time, by tier; each takes up whole units of
// kParamAlignment.
class AliveBytes {
  public:
    AliveBytes(const ScheduleSet& set, size_t tasks);
    // From task `first` to task `last` of the list.
    void add(const BufferSpec& buffer, int first, int last);
    std::vector<int64_t> most() const;

  private:
    std::vector<std::vector<int64_t>> change_;  // by tier and task
};

// Of one of the set's schedules, whose buffers are placed.
std::vector<int64_t> alive_bytes(const ScheduleSet& set, const Schedule& schedule);

}  // namespace windlass
