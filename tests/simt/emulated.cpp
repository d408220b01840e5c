#include "tests/simt/emulated.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "device/cuda/runtime.h"
#include "tests/simt/block.h"
#include "tests/simt/hopper.h"
#include "tests/unit/device/late_queue.h"

namespace windlass {
namespace simt {
namespace {

constexpr size_t kPage = 4096;
constexpr int kUnknownError = 999;
constexpr int kMultiprocessors = 2;

// A kernel's argument, aligned as on a card.
struct alignas(64) ArgumentPart {
    std::byte bytes[64];
};

Emulation emulation;
std::atomic<int64_t> call_count{0}, held_count{0}, stream_count{0}, launch_count{0}, copy_count{0};
std::atomic<uint64_t> used_devices{0};

void use(int device) {
    used_devices |= uint64_t{1} << device;
}

// A call that may fail.
void called(const char* name) {
    const int64_t count = ++call_count;
    if (count == emulation.noted_call) emulation.note();
    if (count == emulation.failing_call) throw DeviceError(name, kUnknownError, "cudaErrorUnknown");
}

struct EmulatedStream {
    int device = 0;
    LateQueue queue{emulation.seed + 1000 * static_cast<uint64_t>(++stream_count), emulation.late_ns};
};

EmulatedStream& of(CudaStreamHandle stream) {
    return *reinterpret_cast<EmulatedStream*>(stream);
}

struct EmulatedEvent : LateEvent {
    std::atomic<int64_t> ahead_ns{0};  // of the device's clock, when it was recorded
};

EmulatedEvent& of(CudaEventHandle event) {
    return *reinterpret_cast<EmulatedEvent*>(event);
}

// Pages, and one behind them that nobody may touch.
std::byte* map_pages(size_t bytes, int protection) {
    void* const pages = ::mmap(nullptr, bytes + kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    auto* const begin = static_cast<std::byte*>(pages);
    if (::mprotect(begin + bytes, kPage, PROT_NONE) != 0) throw std::bad_alloc();
    return begin;
}

class Emulated : public CudaRuntime {
  public:
    std::string name() const override { return "emulated"; }
    int device_count() override { return emulation.devices; }
    CudaProperties properties(int) override {
        return {.name = "emulated",
                .capability = emulation.capability,
                .multiprocessors = kMultiprocessors,
                .memory_bytes = int64_t{1} << 34,
                .cache_bytes = emulation.cache_bytes};
    }
    void require_kernels(int device) override {
        use(device);
        if (!emulation.has_kernels)
            throw UserError(ExitCode::gpu, "device", "cuda:{} has no kernels in this program", device);
    }
    int64_t free_bytes(int device) override {
        use(device);
        const std::lock_guard lock(mutex_);
        int64_t bytes = properties(device).memory_bytes;
        for (const Mapped& mapped : sizes_) bytes -= static_cast<int64_t>(mapped.bytes);
        return bytes;
    }

    // Filled with 0xff, a NaN in every type. It ends where a page ends, as far as alignment allows.
    CudaAllocation allocate(int device, int64_t bytes) override {
        use(device);
        called("cudaMalloc");
        const auto wanted = round_up<size_t>(static_cast<size_t>(std::max<int64_t>(bytes, 1)), 256);
        const auto pages = round_up<size_t>(wanted, kPage);
        std::byte* const there = map_pages(pages, PROT_READ | PROT_WRITE) + (pages - wanted);
        std::byte* const here = map_pages(pages, PROT_NONE) + (pages - wanted);
        std::memset(there, 0xff, wanted);
        const std::lock_guard lock(mutex_);
        sizes_.push_back({there, here, pages});
        ++held_count;
        return {there, here};
    }
    void release(int, const CudaAllocation& memory) noexcept override {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(sizes_.begin(), sizes_.end(),
                                        [&](const Mapped& mapped) { return mapped.there == memory.there; });
        for (std::byte* const address : {found->there, found->here}) {
            std::byte* const begin = address - reinterpret_cast<uintptr_t>(address) % kPage;
            ::munmap(begin, found->bytes + kPage);
        }
        sizes_.erase(found);
        --held_count;
    }
    std::byte* allocate_shared(int device, int64_t bytes) override {
        use(device);
        return new std::byte[static_cast<size_t>(bytes)];
    }
    void release_shared(std::byte* memory) noexcept override { delete[] memory; }
    bool pin(int device, std::span<std::byte> host) override {
        use(device);
        const std::lock_guard lock(mutex_);
        int64_t bytes = std::ssize(host);
        for (const std::span<std::byte> pinned : pinned_) bytes += std::ssize(pinned);
        if (bytes > emulation.pinned_bytes_max) return false;
        pinned_.push_back(host);
        ++held_count;
        return true;
    }
    int64_t pinned_part_bytes() const override { return emulation.pinned_part_bytes; }
    void unpin(std::byte* host) noexcept override {
        const std::lock_guard lock(mutex_);
        std::erase_if(pinned_, [&](std::span<std::byte> pinned) { return pinned.data() == host; });
        --held_count;
    }

    CudaStreamHandle make_stream(int device) override {
        use(device);
        called("cudaStreamCreateWithFlags");
        ++held_count;
        return reinterpret_cast<CudaStreamHandle>(new EmulatedStream{.device = device});
    }
    void release(CudaStreamHandle stream) noexcept override {
        delete &of(stream);
        --held_count;
    }
    int use_device_of(CudaStreamHandle stream) override {
        use(of(stream).device);
        return of(stream).device;
    }
    void use_device(int device) override { use(device); }
    void synchronize(CudaStreamHandle stream) override {
        of(stream).queue.synchronize();
        called("cudaStreamSynchronize");
    }
    CudaEventHandle make_event(int device) override {
        use(device);
        called("cudaEventCreateWithFlags");
        ++held_count;
        return reinterpret_cast<CudaEventHandle>(new EmulatedEvent);
    }
    void release(CudaEventHandle event) noexcept override {
        delete &of(event);
        --held_count;
    }

    void record(CudaStreamHandle stream, CudaEventHandle event) override {
        called("cudaEventRecord");
        of(event).ahead_ns = emulation.ahead_ns;
        of(stream).queue.record(of(event));
    }
    void wait_for(CudaStreamHandle stream, CudaEventHandle event) override {
        called("cudaStreamWaitEvent");
        of(stream).queue.wait_for(of(event));
    }
    void copy(CudaStreamHandle stream, void* to, const void* from, int64_t bytes) override {
        called("cudaMemcpyAsync");
        require_uniform(static_cast<const std::byte*>(to), bytes);
        require_uniform(static_cast<const std::byte*>(from), bytes);
        ++copy_count;
        of(stream).queue.work([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
    }
    void clear(CudaStreamHandle stream, void* to, int64_t bytes) override {
        called("cudaMemsetAsync");
        of(stream).queue.work([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
    }
    // The argument is copied: who launches need not keep it.
    void launch(CudaStreamHandle stream, const CudaKernelCall& call) override {
        called(call.name);
        if (emulation.launching) emulation.launching(call.name);
        auto args = std::make_shared<std::vector<ArgumentPart>>(div_up(call.arg_bytes, sizeof(ArgumentPart)));
        std::memcpy(args->data(), call.args, call.arg_bytes);
        const uint64_t seed = emulation.seed + static_cast<uint64_t>(++launch_count);
        of(stream).queue.work([run = call.run, kernel = call.kernel, grid = call.grid, name = call.name, seed, args] {
            try {
                run_grid(grid, seed, [&] { run(kernel, args->data()); });
            } catch (const Fault& fault) {
                throw DeviceError(name, kUnknownError, fault.what());
            }
        });
    }
    CudaArchitecture architecture(CudaStreamHandle) override { return {emulation.capability, kMultiprocessors}; }
    TensorMap tensor_map(const TensorBoxes& boxes) override { return make_tensor_map(boxes); }
    void wait(CudaEventHandle event) override { of(event).wait(); }
    // As cudaEventElapsedTime: a float of milliseconds.
    double seconds_between(CudaEventHandle begin, CudaEventHandle end) override {
        const int64_t ns = of(end).wait() + of(end).ahead_ns - of(begin).wait() - of(begin).ahead_ns;
        const auto milliseconds = static_cast<float>(1e-6 * static_cast<double>(ns));
        return 1e-3 * static_cast<double>(milliseconds);
    }

  private:
    // What a copy reads or writes lies in one registration, or touches none.
    void require_uniform(const std::byte* begin, int64_t bytes) {
        constexpr int kInvalidValue = 1;
        const std::lock_guard lock(mutex_);
        for (const std::span<std::byte> pinned : pinned_) {
            const std::byte* const end = pinned.data() + pinned.size();
            const bool touches = begin < end && begin + bytes > pinned.data();
            if (touches && (begin < pinned.data() || begin + bytes > end))
                throw DeviceError("cudaMemcpyAsync", kInvalidValue, "cudaErrorInvalidValue");
        }
    }

    struct Mapped {
        std::byte *there, *here;
        size_t bytes;
    };
    std::mutex mutex_;
    std::vector<Mapped> sizes_;
    std::vector<std::span<std::byte>> pinned_;
};

}  // namespace

void emulate(const Emulation& wanted) {
    emulation = wanted;
    call_count = 0;
    launch_count = 0;
    copy_count = 0;
    used_devices = 0;
}

int64_t calls() {
    return call_count.load();
}

int64_t held() {
    return held_count.load();
}

int64_t copies_made() {
    return copy_count.load();
}

bool is_used(int device) {
    return (used_devices.load() >> device & 1) != 0;
}

int64_t many() {
    return int64_t{1} << 20;
}

}  // namespace simt

CudaRuntime* find_cuda_runtime() {
    static simt::Emulated runtime;
    return &runtime;
}

std::string cuda_build() {
    return find_cuda_runtime()->name();
}

}  // namespace windlass
