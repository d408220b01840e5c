#include "tests/unit/device/fake_async.h"

#include <sys/mman.h>

#include <cstring>

#include "base/error.h"
#include "device/cpu/cpu_stream.h"
#include "device/host_memory.h"
#include "tests/unit/device/late_queue.h"

namespace windlass {
namespace {

std::byte* map(size_t bytes, int protection) {
    void* const address = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WINDLASS_CHECK(address != MAP_FAILED, "{} bytes cannot be mapped", bytes);
    return static_cast<std::byte*>(address);
}

class MirroredMemory : public Memory {
  public:
    explicit MirroredMemory(int64_t bytes)
        : bytes_(bytes),
          mapped_(static_cast<size_t>(std::max<int64_t>(bytes, 1))),
          inside_(map(mapped_, PROT_READ | PROT_WRITE)),
          mirror_(map(mapped_, PROT_NONE)) {}
    ~MirroredMemory() override {
        ::munmap(inside_, mapped_);
        ::munmap(mirror_, mapped_);
    }
    int64_t bytes() const override { return bytes_; }
    std::byte* address(const Launch&) const override { return inside_; }
    std::byte* address() const override { return mirror_; }
    void read(int64_t offset, std::span<std::byte> to) const override {
        std::memcpy(to.data(), inside_ + offset, to.size());
    }
    void write(int64_t offset, std::span<const std::byte> from) override {
        std::memcpy(inside_ + offset, from.data(), from.size());
    }

  private:
    int64_t bytes_;
    size_t mapped_;
    std::byte *inside_, *mirror_;
};

class AsyncEvent : public Event {
  public:
    void wait() override { time_ns_ = late.wait(); }
    LateEvent late;
};

}  // namespace

class LateStream : public Stream {
  public:
    LateStream(FakeAsync& device, uint32_t number, int threads)
        : device_(device),
          inner_(threads),
          queue_(device.options_.seed + number, device.options_.late_ns, &device.ran_ahead_) {}
    DeviceKind device() const override { return inner_.device(); }
    bool runs_ahead() const override { return true; }
    void launch(Work work) override {
        queue_.work([this, work = std::move(work)] { work(on(inner_)); });
    }
    std::unique_ptr<Event> make_event() override { return std::make_unique<AsyncEvent>(); }
    void record(Event& event) override { queue_.record(static_cast<AsyncEvent&>(event).late); }
    void wait_for(const Event& event) override {
        if (++device_.waits_ == device_.options_.forgotten_wait) return;
        queue_.wait_for(static_cast<const AsyncEvent&>(event).late);
    }
    void synchronize() override { queue_.synchronize(); }

  private:
    FakeAsync& device_;
    CpuStream inner_;
    LateQueue queue_;  // last: ends before what it uses
};

std::unique_ptr<Stream> FakeAsync::make_stream(int threads) {
    return std::make_unique<LateStream>(*this, streams_++, threads);
}

std::unique_ptr<Memory> FakeAsync::allocate(int64_t bytes, MemoryKind kind) {
    if (kind == MemoryKind::host) return std::make_unique<HostMemory>(bytes);
    return std::make_unique<MirroredMemory>(bytes);
}

}  // namespace windlass
