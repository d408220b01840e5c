// cuda_stream.h: a CUDA device as Device, its streams, events and memory.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda/cuda_event.h"

namespace windlass {

// Launches return at once: work is called on the launching thread, and what it asks of the stream is queued.
class CudaStream : public Stream {
  public:
    CudaStream(CudaRuntime& runtime, int device, CudaClock clock = now_ns);
    CudaStream(const CudaStream&) = delete;
    ~CudaStream() override;
    DeviceKind device() const override { return DeviceKind::cuda; }
    bool runs_ahead() const override { return true; }
    std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(runtime_, device_); }
    void record(Event& event) override;
    void wait_for(const Event& event) override;
    void synchronize() override;
    // In pieces where memory of the host ceases to be pinned, or begins to be: CUDA refuses a copy across that.
    void copy(void* to, const void* from, int64_t bytes) override;
    void clear(void* to, int64_t bytes) override { runtime_.clear(handle_, to, bytes); }
    CudaStreamHandle handle() const { return handle_; }

  private:
    CudaRuntime& runtime_;
    int device_;
    CudaClock clock_;
    CudaStreamHandle handle_;
    std::shared_ptr<CudaTimeBase> base_;
};

inline CudaStreamHandle cuda_handle(Stream& stream) {
    WINDLASS_CHECK(stream.device() == DeviceKind::cuda, "a CUDA kernel was launched on another device");
    return static_cast<CudaStream&>(stream).handle();
}

// Throws UserError(gpu) if there is no such device, or no kernels for it in this program.
std::unique_ptr<Device> make_cuda_device(int index);

}  // namespace windlass
