// jitter.h: seeded delays with which tests make lanes interleave in many ways; the delays are drawn per lane.
//
// Threads: one owner (a lane).
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace windlass {

class Jitter {
  public:
    // Lanes of one run share the seed; each draws a sequence of its own.
    Jitter(uint64_t seed, int64_t max_ns, uint32_t lane = 0);
    // In [0, max_ns], and 0, which only offers the core to others, a quarter of the time.
    int64_t next_ns();
    void wait();

  private:
    int64_t max_ns_;
    Random random_;
};

// Outside tests there is none, and this costs nothing.
inline void wait_for(Jitter* jitter) {
    if (jitter != nullptr) jitter->wait();
}

}  // namespace windlass
