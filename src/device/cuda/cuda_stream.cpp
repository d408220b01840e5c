#include "device/cuda/cuda_stream.h"

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"

namespace windlass {
namespace {

class CudaMemory : public Memory {
  public:
    CudaMemory(CudaRuntime& runtime, int device, int64_t bytes)
        : runtime_(runtime), device_(device), bytes_(bytes), memory_(runtime.allocate(device, bytes)) {
        try {
            copies_ = std::make_unique<CudaStream>(runtime, device);
        } catch (...) {
            runtime.release(device, memory_);
            throw;
        }
    }
    CudaMemory(const CudaMemory&) = delete;
    ~CudaMemory() override { runtime_.release(device_, memory_); }
    int64_t bytes() const override { return bytes_; }
    std::byte* address(const Launch&) const override { return memory_.there; }
    std::byte* address() const override { return memory_.here; }
    void read(int64_t offset, std::span<std::byte> to) const override {
        copies_->copy(to.data(), memory_.there + offset, std::ssize(to));
        copies_->synchronize();
    }
    void write(int64_t offset, std::span<const std::byte> from) override {
        copies_->copy(memory_.there + offset, from.data(), std::ssize(from));
        copies_->synchronize();
    }

  private:
    CudaRuntime& runtime_;
    int device_;
    int64_t bytes_;
    CudaAllocation memory_;
    std::unique_ptr<CudaStream> copies_;  // the host's own
};

// One registration of several hundred GiB is said to fail; no card of ours has tried. Parts are safe.
constexpr int64_t kPinnedPart = int64_t{64} << 30;

// The host's, pinned where the system allows it.
class PinnedMemory : public Memory {
  public:
    PinnedMemory(CudaRuntime& runtime, int64_t bytes) : runtime_(runtime), buffer_(bytes, /*touch=*/true) {
        for (int64_t begin = 0; begin < buffer_.size(); begin += kPinnedPart) {
            const int64_t size = std::min(kPinnedPart, buffer_.size() - begin);
            if (!runtime.pin({buffer_.data() + begin, static_cast<size_t>(size)})) {
                log_warning(
                    "the system lets only {} of {} of host memory be pinned: the rest is copied more slowly than was "
                    "planned",
                    format_bytes(begin), format_bytes(buffer_.size()));
                break;
            }
            ++parts_;
        }
    }
    PinnedMemory(const PinnedMemory&) = delete;
    ~PinnedMemory() override {
        for (int64_t part = 0; part < parts_; ++part) runtime_.unpin(buffer_.data() + part * kPinnedPart);
    }
    int64_t bytes() const override { return buffer_.size(); }
    std::byte* address(const Launch&) const override { return buffer_.data(); }
    std::byte* address() const override { return buffer_.data(); }
    void read(int64_t offset, std::span<std::byte> to) const override {
        std::copy_n(buffer_.data() + offset, to.size(), to.data());
    }
    void write(int64_t offset, std::span<const std::byte> from) override {
        std::copy_n(from.data(), from.size(), buffer_.data() + offset);
    }

  private:
    CudaRuntime& runtime_;
    HugeBuffer buffer_;
    int64_t parts_ = 0;
};

constexpr int64_t kGridBlocksMax = 0x7fffffff, kGridRowsMax = 0xffff;  // of every compute capability

class CudaDevice : public Device {
  public:
    explicit CudaDevice(int index) : runtime_(cuda_runtime()), index_(index) {
        const int count = runtime_.device_count();
        if (index >= count)
            throw UserError(ExitCode::gpu, "device", "there is no cuda:{}: this machine has {} CUDA device{}", index,
                            count, count == 1 ? "" : "s")
                .hint("device: cpu, or a device that it has");
    }
    DeviceProperties properties() override {
        const CudaProperties found = runtime_.properties(index_);
        return {.name = found.name,
                // A library that chooses by shape chooses by how many share the work, too.
                .kernel_path = fmt::format("sm_{} x {}", found.capability, found.multiprocessors),
                .memory_bytes = found.memory_bytes,
                .free_bytes = runtime_.free_bytes(index_)};
    }
    std::unique_ptr<Stream> make_stream(int) override { return std::make_unique<CudaStream>(runtime_, index_); }
    std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind kind) override {
        if (kind == MemoryKind::host) return std::make_unique<PinnedMemory>(runtime_, bytes);
        return std::make_unique<CudaMemory>(runtime_, index_, bytes);
    }

  private:
    CudaRuntime& runtime_;
    int index_;
};

}  // namespace

void CudaEvent::wait() {
    runtime_.wait(handle_);
    if (begin_ != nullptr) time_ns_ = begin_ns_ + static_cast<int64_t>(1e9 * runtime_.seconds_between(begin_, handle_));
}

void CudaEvent::count_from(const CudaEvent& begin, int64_t ns) {
    begin_ = begin.handle_;
    begin_ns_ = ns;
}

CudaStream::CudaStream(CudaRuntime& runtime, int device)
    : runtime_(runtime), device_(device), begin_(runtime, device), handle_(runtime.make_stream(device)) {
    try {
        runtime_.record(handle_, begin_.handle());
        begin_.wait();
    } catch (...) {
        runtime_.release(handle_);
        throw;
    }
    begin_ns_ = now_ns();
}

CudaStream::~CudaStream() {
    runtime_.release(handle_);
}

void CudaStream::record(Event& event) {
    auto& here = static_cast<CudaEvent&>(event);
    here.count_from(begin_, begin_ns_);
    runtime_.record(handle_, here.handle());
}

void CudaStream::wait_for(const Event& event) {
    runtime_.wait_for(handle_, static_cast<const CudaEvent&>(event).handle());
}

void CudaStream::synchronize() {
    runtime_.synchronize(handle_);
}

std::unique_ptr<Device> make_cuda_device(int index) {
    return std::make_unique<CudaDevice>(index);
}

CudaRuntime& cuda_runtime() {
    CudaRuntime* const runtime = find_cuda_runtime();
    if (runtime == nullptr)
        throw UserError(ExitCode::gpu, "device", "this windlass was built without CUDA: {}", cuda_build())
            .hint(
                "device: cpu; or cmake --preset release && cmake --build --preset release, which builds kernels if it "
                "finds nvcc 12.8 or newer (docs/guide/gpu.md)");
    return *runtime;
}

void launch_kernel(CudaStreamHandle stream, const CudaKernelCall& call) {
    const CudaGrid& grid = call.grid;
    if (grid.blocks > kGridBlocksMax || grid.rows > kGridRowsMax)
        throw UserError(ExitCode::gpu, "device",
                        "\"{}\" needs a grid of {} x {} blocks, and no card takes more than {} x {}", call.name,
                        grid.blocks, grid.rows, kGridBlocksMax, kGridRowsMax)
            .hint("a micro-batch of fewer rows, or fewer directions of a step");
    cuda_runtime().launch(stream, call);
}

}  // namespace windlass
