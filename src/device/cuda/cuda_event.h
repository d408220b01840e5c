// cuda_event.h: points in what a CUDA stream does, and when they were.
//
// A device reports times as a float of milliseconds since an earlier event: to 0.25 ms after an hour, to 8 ms after a
// day. So a stream counts times from a base, and takes a new one every second.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "device/cuda/runtime.h"
#include "device/device.h"

namespace windlass {

class CudaTimeBase;

class CudaEvent : public Event {
  public:
    CudaEvent(CudaRuntime& runtime, int device) : runtime_(runtime), handle_(runtime.make_event(device)) {}
    CudaEvent(const CudaEvent&) = delete;
    ~CudaEvent() override { runtime_.release(handle_); }
    void wait() override;
    CudaEventHandle handle() const { return handle_; }
    // Its time is counted from `base`, which its stream recorded before it.
    void count_from(std::shared_ptr<CudaTimeBase> base) { base_ = std::move(base); }

  private:
    CudaRuntime& runtime_;
    CudaEventHandle handle_;
    std::shared_ptr<CudaTimeBase> base_;  // shared by the events of about a second
};

using CudaClock = int64_t (*)();  // now_ns, or a clock of tests

// An event whose time on the host's clock is known once a later one is complete. Threads: any.
class CudaTimeBase {
  public:
    // Records itself. `before`: the base that the stream had until now; null: of a stream without work.
    CudaTimeBase(CudaRuntime& runtime, int device, CudaStreamHandle stream, CudaClock clock,
                 std::shared_ptr<CudaTimeBase> before);
    // Of an event that was recorded after it and is complete. Times that are asked for in the order of a stream's
    // events do not fall.
    int64_t time_of(CudaEventHandle event);
    // Whether its own time is known, and it is older than times are to be counted from.
    bool is_due() const;
    // Waits for itself: its time is known.
    void settle();

  private:
    int64_t own_time();
    int64_t latest_time() const;

    CudaRuntime& runtime_;
    CudaEvent event_;
    const CudaClock clock_;
    const int64_t issued_ns_;  // no earlier was it recorded
    mutable std::mutex mutex_;
    std::shared_ptr<CudaTimeBase> before_;  // until its own time is known
    std::optional<int64_t> own_ns_;
    int64_t latest_ns_ = 0;  // of the times that it has told
};

}  // namespace windlass
