#include "device/cpu/team.h"

#include <immintrin.h>

#include "base/error.h"

namespace windlass {
namespace {

constexpr int kSpins = 2000;                // about 20 us: longer than the gap between two kernels of a segment
constexpr int kInVain = 8;                  // spins in a row: what lies between two segments or steps is fewer
constexpr int kSleeps = 3;                  // waits that do not spin, after those
constexpr unsigned kMxcsrDefault = 0x1f80;  // exceptions masked, nearest, no flush-to-zero, no denormals-are-zero

}  // namespace

template <typename Done>
void Spinner::spin_until(Done done) {
    if (sleeps_ > 0) {
        --sleeps_;
        return;
    }
    for (int spin = 0; spin < kSpins; ++spin) {
        if (done()) {
            in_vain_ = 0;
            return;
        }
        _mm_pause();
    }
    if (++in_vain_ >= kInVain) sleeps_ = kSleeps;
}

void set_float_mode() {
    _mm_setcsr(kMxcsrDefault);
}

Team::Team(int threads) {
    WINDLASS_CHECK(threads >= 1, "a team of {} threads", threads);
    for (int worker = 1; worker < threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

Team::~Team() {
    stop_.store(true);
    round_.fetch_add(1);
    round_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Team::parallel_for(int64_t count, const std::function<void(int64_t, int)>& body) {
    if (count <= 0) return;
    if (count == 1 || threads_.empty()) {
        for (int64_t index = 0; index < count; ++index) body(index, 0);
        return;
    }
    body_ = &body;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    drain(0);
    caller_.spin_until([this] { return busy_.load(std::memory_order_acquire) == 0; });
    for (int busy = busy_.load(std::memory_order_acquire); busy != 0; busy = busy_.load(std::memory_order_acquire)) {
        busy_.wait(busy, std::memory_order_acquire);
    }
}

void Team::work(int worker) {
    set_float_mode();
    uint32_t seen = 0;
    Spinner spinner;
    for (;;) {
        spinner.spin_until([&] { return round_.load(std::memory_order_acquire) != seen; });
        while (round_.load(std::memory_order_acquire) == seen) round_.wait(seen, std::memory_order_acquire);
        ++seen;
        if (stop_.load()) return;
        drain(worker);
        if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
    }
}

void Team::drain(int worker) {
    for (int64_t index = next_.fetch_add(1, std::memory_order_relaxed); index < count_;
         index = next_.fetch_add(1, std::memory_order_relaxed)) {
        (*body_)(index, worker);
    }
}

}  // namespace windlass
