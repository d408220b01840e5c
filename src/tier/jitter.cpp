#include "tier/jitter.h"

#include <chrono>
#include <thread>

#include "base/error.h"

namespace windlass {

Jitter::Jitter(uint64_t seed, int64_t max_ns, uint32_t lane)
    : max_ns_(max_ns), random_(seed, RandomStream::test, lane) {
    WINDLASS_CHECK(max_ns >= 0, "a delay of {} ns", max_ns);
}

int64_t Jitter::next_ns() {
    if (random_.below(4) == 0) return 0;
    return static_cast<int64_t>(random_.below(static_cast<uint64_t>(max_ns_) + 1));
}

void Jitter::wait() {
    const int64_t delay_ns = next_ns();
    if (delay_ns == 0) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::nanoseconds(delay_ns));
}

}  // namespace windlass
