// cuda_stream.h: a CUDA device as Device, its streams, events and memory.
#pragma once

#include "base/error.h"
#include "device/cuda/runtime.h"
#include "device/device.h"

namespace windlass {

class CudaEvent : public Event {
  public:
    CudaEvent(CudaRuntime& runtime, int device) : runtime_(runtime), handle_(runtime.make_event(device)) {}
    CudaEvent(const CudaEvent&) = delete;
    ~CudaEvent() override { runtime_.release(handle_); }
    void wait() override;
    CudaEventHandle handle() const { return handle_; }
    // The time is counted from `begin`, which is complete and was recorded at `ns`.
    void count_from(const CudaEvent& begin, int64_t ns);

  private:
    CudaRuntime& runtime_;
    CudaEventHandle handle_;
    CudaEventHandle begin_ = nullptr;
    int64_t begin_ns_ = 0;
};

// Launches return at once: work is called on the launching thread, and what it asks of the stream is queued.
class CudaStream : public Stream {
  public:
    CudaStream(CudaRuntime& runtime, int device);
    CudaStream(const CudaStream&) = delete;
    ~CudaStream() override;
    DeviceKind device() const override { return DeviceKind::cuda; }
    bool runs_ahead() const override { return true; }
    std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(runtime_, device_); }
    void record(Event& event) override;
    void wait_for(const Event& event) override;
    void synchronize() override;
    void copy(void* to, const void* from, int64_t bytes) override { runtime_.copy(handle_, to, from, bytes); }
    void clear(void* to, int64_t bytes) override { runtime_.clear(handle_, to, bytes); }
    CudaStreamHandle handle() const { return handle_; }

  private:
    CudaRuntime& runtime_;
    int device_;
    CudaEvent begin_;  // complete since the stream was made, at begin_ns_: times are counted from it
    CudaStreamHandle handle_;
    int64_t begin_ns_ = 0;
};

inline CudaStreamHandle cuda_handle(Stream& stream) {
    WINDLASS_CHECK(stream.device() == DeviceKind::cuda, "a CUDA kernel was launched on another device");
    return static_cast<CudaStream&>(stream).handle();
}

// Throws UserError(gpu) where there is no such device.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace windlass
