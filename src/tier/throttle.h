// throttle.h: a link of a given rate, for emulated machines: a mover waits until its bytes would be across.
//
// A link carries one thing after another: a passage is due when its own bytes and all that entered before are across.
// The mean rate is exact: a thread that is late at the end of a passage, because it overslept or lost the core, finds
// the link that much ahead at its next. An idle link saves up nothing: pauses are forgiven up to kPauseNs between them.
// Threads: any; several may share a link, as the reads and writes of a half-duplex disk do.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "base/clock.h"

namespace windlass {

void sleep_until_ns(int64_t time_ns);  // of now_ns(); returns at that time or later

// What a throttle goes by; tests pass a clock of their own.
struct ThrottleClock {
    std::function<int64_t()> now = now_ns;
    std::function<void(int64_t time_ns)> sleep_until = sleep_until_ns;
};

class Throttle {
  public:
    static constexpr int64_t kPauseNs = 4'000'000;
    static constexpr int64_t kLateNsMax = 250'000'000;

    // 0: as fast as it goes; bytes are only counted.
    explicit Throttle(double bytes_per_s, ThrottleClock clock = {});

    struct Passage {
        int64_t begin_ns, due_ns;
    };
    // Between the two the bytes may really be moved. Only leave() waits.
    Passage enter(int64_t bytes);
    void leave(const Passage& passage);
    void take(int64_t bytes) { leave(enter(bytes)); }

    double bytes_per_s() const { return bytes_per_s_; }
    int64_t bytes() const;  // that entered so far

  private:
    const double bytes_per_s_;
    const ThrottleClock clock_;
    mutable std::mutex mutex_;
    int64_t bytes_ = 0;
    int64_t free_ns_ = INT64_MIN / 2;  // when all that entered is across
    double fraction_ns_ = 0;           // of the same, below a nanosecond
    int64_t late_ns_ = 0;              // how much of the time since free_ns_ the movers lost, rather than paused
};

}  // namespace windlass
