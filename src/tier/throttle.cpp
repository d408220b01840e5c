#include "tier/throttle.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/error.h"

namespace windlass {
namespace {

constexpr double kBytesPerSecondMin = 1000;  // slower links would overflow the nanoseconds of large transfers

}  // namespace

// No spinning for the last microseconds: on shared cores it takes time from the others, and lateness is paid back.
void sleep_until_ns(int64_t time_ns) {
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time_ns)));
}

Throttle::Throttle(double bytes_per_s, ThrottleClock clock) : bytes_per_s_(bytes_per_s), clock_(std::move(clock)) {
    WINDLASS_CHECK(bytes_per_s == 0 || (bytes_per_s >= kBytesPerSecondMin && std::isfinite(bytes_per_s)),
                   "a link of {} bytes/s", bytes_per_s);
}

Throttle::Passage Throttle::enter(int64_t bytes) {
    WINDLASS_CHECK(bytes >= 0, "{} bytes enter a link", bytes);
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    if (bytes_per_s_ == 0) return {};
    const int64_t now = clock_.now();
    if (now - free_ns_ - late_ns_ > kPauseNs) {
        free_ns_ = now;
        fraction_ns_ = 0;
    }
    const double exact_ns = static_cast<double>(bytes) * 1e9 / bytes_per_s_ + fraction_ns_;
    const double whole_ns = std::floor(exact_ns);
    fraction_ns_ = exact_ns - whole_ns;
    free_ns_ += static_cast<int64_t>(whole_ns);
    late_ns_ = std::clamp<int64_t>(now - free_ns_, 0, late_ns_);
    return {.begin_ns = now, .due_ns = free_ns_};
}

void Throttle::leave(const Passage& passage) {
    if (bytes_per_s_ == 0) return;
    if (clock_.now() < passage.due_ns) clock_.sleep_until(passage.due_ns);
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.now();
    const int64_t late_ns = late_ns_ + now - std::max(passage.begin_ns, passage.due_ns);
    late_ns_ = std::clamp<int64_t>(std::min(late_ns, now - free_ns_), 0, kLateNsMax);
}

int64_t Throttle::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

}  // namespace windlass
