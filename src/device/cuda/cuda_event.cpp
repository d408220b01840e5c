#include "device/cuda/cuda_event.h"

#include <algorithm>

namespace windlass {
namespace {

constexpr int64_t kBaseNs = 1'000'000'000;  // a float of 1000 ms is precise to 0.06 us

}  // namespace

void CudaEvent::wait() {
    runtime_.wait(handle_);
    if (base_ != nullptr) time_ns_ = base_->time_of(handle_);
}

CudaTimeBase::CudaTimeBase(CudaRuntime& runtime, int device, CudaStreamHandle stream, CudaClock clock,
                           std::shared_ptr<CudaTimeBase> before)
    : runtime_(runtime), event_(runtime, device), clock_(clock), issued_ns_(clock()), before_(std::move(before)) {
    runtime.record(stream, event_.handle());
}

// The clocks of the device and of the host drift apart, by seconds in a day. The host's is right: the base was recorded
// after it was issued, and is complete now. Its time goes back by no more than a gap between events.
int64_t CudaTimeBase::own_time() {
    if (own_ns_) return *own_ns_;
    const int64_t now = std::max(issued_ns_, clock_());
    own_ns_ = now;
    if (before_ != nullptr) {
        const int64_t latest = before_->latest_time();
        own_ns_ = std::max(latest, std::clamp(before_->time_of(event_.handle()), issued_ns_, now));
    }
    before_.reset();
    return *own_ns_;
}

int64_t CudaTimeBase::latest_time() const {
    const std::lock_guard lock(mutex_);
    return latest_ns_;
}

int64_t CudaTimeBase::time_of(CudaEventHandle event) {
    const std::lock_guard lock(mutex_);
    const double seconds = runtime_.seconds_between(event_.handle(), event);
    const int64_t time = own_time() + static_cast<int64_t>(1e9 * seconds);
    latest_ns_ = std::max(latest_ns_, time);
    return time;
}

bool CudaTimeBase::is_due() const {
    const std::lock_guard lock(mutex_);
    return own_ns_.has_value() && clock_() - issued_ns_ > kBaseNs;
}

void CudaTimeBase::settle() {
    event_.wait();
    const std::lock_guard lock(mutex_);
    own_time();
}

}  // namespace windlass
