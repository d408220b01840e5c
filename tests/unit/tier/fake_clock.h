// fake_clock.h: a clock for throttles that moves only when a test moves it or somebody sleeps.
#pragma once

#include <algorithm>
#include <mutex>

#include "tier/throttle.h"

namespace windlass {

class FakeClock {
  public:
    // Every sleep takes this much longer than was asked for.
    explicit FakeClock(int64_t oversleep_ns = 0) : oversleep_ns_(oversleep_ns) {}

    int64_t now() const {
        const std::lock_guard lock(mutex_);
        return now_ns_;
    }
    void pass(int64_t ns) {
        const std::lock_guard lock(mutex_);
        now_ns_ += ns;
    }
    int sleeps() const {
        const std::lock_guard lock(mutex_);
        return sleeps_;
    }
    ThrottleClock throttle_clock() {
        return {.now = [this] { return now(); }, .sleep_until = [this](int64_t time_ns) { sleep_until(time_ns); }};
    }

  private:
    void sleep_until(int64_t time_ns) {
        const std::lock_guard lock(mutex_);
        now_ns_ = std::max(now_ns_, time_ns + oversleep_ns_);
        ++sleeps_;
    }

    const int64_t oversleep_ns_;
    mutable std::mutex mutex_;
    int64_t now_ns_ = 0;
    int sleeps_ = 0;
};

}  // namespace windlass
