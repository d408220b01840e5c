#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"
#include "device/cuda/pinned_ranges.h"

namespace windlass {
namespace {

// Attention of compute capability 9.0 once had the kernels, and the order of sums, of all others.
constexpr std::string_view kHopperPath = ", wgmma";

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

// Registrations of memory of the host, until it is destroyed.
class Pins {
  public:
    explicit Pins(CudaRuntime& runtime) : runtime_(runtime) {}
    Pins(const Pins&) = delete;
    ~Pins() {
        for (std::byte* const begin : begins_) {
            pinned_ranges().remove(begin);
            runtime_.unpin(begin);
        }
    }
    // False: the system refuses.
    bool add(int device, std::span<std::byte> part) {
        begins_.reserve(begins_.size() + 1);
        if (!runtime_.pin(device, part)) return false;
        begins_.push_back(part.data());
        pinned_ranges().add(part);
        return true;
    }

  private:
    CudaRuntime& runtime_;
    std::vector<std::byte*> begins_;
};

// The host's, pinned as far as the system allows it.
class PinnedMemory : public Memory {
  public:
    PinnedMemory(CudaRuntime& runtime, int device, int64_t bytes) : buffer_(bytes, /*touch=*/true), pins_(runtime) {
        const int64_t most = runtime.pinned_part_bytes();
        for (int64_t begin = 0; begin < buffer_.size(); begin += most) {
            const auto size = static_cast<size_t>(std::min(most, buffer_.size() - begin));
            if (pins_.add(device, {buffer_.data() + begin, size})) continue;
            log_warning(
                "the system lets only {} of {} of host memory be pinned: the rest is copied more slowly than was "
                "planned",
                format_bytes(begin), format_bytes(buffer_.size()));
            break;
        }
    }
    PinnedMemory(const PinnedMemory&) = delete;
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
    HugeBuffer buffer_;
    Pins pins_;
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
        runtime_.require_kernels(index);
    }
    DeviceProperties properties() override {
        const CudaProperties found = runtime_.properties(index_);
        return {.name = found.name,
                // A library that chooses by shape chooses by how many share the work, too.
                .kernel_path = fmt::format("sm_{} x {}{}", found.capability, found.multiprocessors,
                                           found.capability == kHopper ? kHopperPath : ""),
                .memory_bytes = found.memory_bytes,
                .free_bytes = runtime_.free_bytes(index_),
                .cache_bytes = found.cache_bytes};
    }
    std::unique_ptr<Stream> make_stream(int) override { return std::make_unique<CudaStream>(runtime_, index_); }
    std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind kind) override {
        if (kind == MemoryKind::host) return std::make_unique<PinnedMemory>(runtime_, index_, bytes);
        return std::make_unique<CudaMemory>(runtime_, index_, bytes);
    }

  private:
    CudaRuntime& runtime_;
    int index_;
};

}  // namespace

CudaStream::CudaStream(CudaRuntime& runtime, int device, CudaClock clock)
    : runtime_(runtime), device_(device), clock_(clock), handle_(runtime.make_stream(device)) {
    try {
        base_ = std::make_shared<CudaTimeBase>(runtime, device, handle_, clock, nullptr);
        base_->settle();
    } catch (...) {
        runtime_.release(handle_);
        throw;
    }
}

CudaStream::~CudaStream() {
    runtime_.release(handle_);
}

void CudaStream::record(Event& event) {
    if (base_->is_due()) base_ = std::make_shared<CudaTimeBase>(runtime_, device_, handle_, clock_, base_);
    auto& here = static_cast<CudaEvent&>(event);
    here.count_from(base_);
    runtime_.record(handle_, here.handle());
}

void CudaStream::wait_for(const Event& event) {
    runtime_.wait_for(handle_, static_cast<const CudaEvent&>(event).handle());
}

void CudaStream::copy(void* to, const void* from, int64_t bytes) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
        const int64_t piece = pinned_ranges().uniform(target, pinned_ranges().uniform(source, bytes));
        runtime_.copy(handle_, target, source, piece);
        target += piece;
        source += piece;
        bytes -= piece;
    }
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
