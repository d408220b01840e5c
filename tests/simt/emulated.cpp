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
#include "tests/unit/device/late_queue.h"

namespace windlass {
namespace simt {
namespace {

constexpr size_t kPage = 4096;
constexpr int kUnknownError = 999;

Emulation emulation;
std::atomic<int64_t> call_count{0}, held_count{0}, stream_count{0}, launch_count{0};

// A call that may fail.
void called(const char* name) {
    const int64_t count = ++call_count;
    if (count == emulation.noted_call) emulation.note();
    if (count == emulation.failing_call) throw DeviceError(name, kUnknownError, "cudaErrorUnknown");
}

struct EmulatedStream {
    LateQueue queue{emulation.seed + 1000 * static_cast<uint64_t>(++stream_count), emulation.late_ns};
};

EmulatedStream& of(CudaStreamHandle stream) {
    return *reinterpret_cast<EmulatedStream*>(stream);
}
LateEvent& of(CudaEventHandle event) {
    return *reinterpret_cast<LateEvent*>(event);
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
    int device_count() override { return 1; }
    CudaProperties properties(int) override {
        return {.name = "emulated", .capability = 90, .multiprocessors = 2, .memory_bytes = int64_t{1} << 34};
    }
    int64_t free_bytes(int device) override {
        const std::lock_guard lock(mutex_);
        int64_t bytes = properties(device).memory_bytes;
        for (const Mapped& mapped : sizes_) bytes -= static_cast<int64_t>(mapped.bytes);
        return bytes;
    }

    // Filled with 0xff, a NaN in every type. It ends where a page ends, as far as alignment allows.
    CudaAllocation allocate(int, int64_t bytes) override {
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
    std::byte* allocate_shared(int64_t bytes) override { return new std::byte[static_cast<size_t>(bytes)]; }
    void release_shared(std::byte* memory) noexcept override { delete[] memory; }
    bool pin(std::span<std::byte>) override {
        if (emulation.refuses_pins) return false;
        ++held_count;
        return true;
    }
    void unpin(std::byte*) noexcept override { --held_count; }

    CudaStreamHandle make_stream(int) override {
        called("cudaStreamCreateWithFlags");
        ++held_count;
        return reinterpret_cast<CudaStreamHandle>(new EmulatedStream);
    }
    void release(CudaStreamHandle stream) noexcept override {
        delete &of(stream);
        --held_count;
    }
    int use_device_of(CudaStreamHandle) override { return 0; }
    void synchronize(CudaStreamHandle stream) override {
        of(stream).queue.synchronize();
        called("cudaStreamSynchronize");
    }
    CudaEventHandle make_event(int) override {
        called("cudaEventCreateWithFlags");
        ++held_count;
        return reinterpret_cast<CudaEventHandle>(new LateEvent);
    }
    void release(CudaEventHandle event) noexcept override {
        delete &of(event);
        --held_count;
    }

    void record(CudaStreamHandle stream, CudaEventHandle event) override {
        called("cudaEventRecord");
        of(stream).queue.record(of(event));
    }
    void wait_for(CudaStreamHandle stream, CudaEventHandle event) override {
        called("cudaStreamWaitEvent");
        of(stream).queue.wait_for(of(event));
    }
    void copy(CudaStreamHandle stream, void* to, const void* from, int64_t bytes) override {
        called("cudaMemcpyAsync");
        of(stream).queue.work([=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
    }
    void clear(CudaStreamHandle stream, void* to, int64_t bytes) override {
        called("cudaMemsetAsync");
        of(stream).queue.work([=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
    }
    // The argument is copied: who launches need not keep it.
    void launch(CudaStreamHandle stream, const CudaKernelCall& call) override {
        called(call.name);
        const auto* const given = static_cast<const std::byte*>(call.args);
        auto args = std::make_shared<std::vector<std::byte>>(given, given + call.arg_bytes);
        const uint64_t seed = emulation.seed + static_cast<uint64_t>(++launch_count);
        of(stream).queue.work([run = call.run, kernel = call.kernel, grid = call.grid, name = call.name, seed, args] {
            try {
                run_grid(grid, seed, [&] { run(kernel, args->data()); });
            } catch (const Fault& fault) {
                throw DeviceError(name, kUnknownError, fault.what());
            }
        });
    }
    void wait(CudaEventHandle event) override { of(event).wait(); }
    double seconds_between(CudaEventHandle begin, CudaEventHandle end) override {
        return 1e-9 * static_cast<double>(of(end).wait() - of(begin).wait());
    }

  private:
    struct Mapped {
        std::byte *there, *here;
        size_t bytes;
    };
    std::mutex mutex_;
    std::vector<Mapped> sizes_;
};

}  // namespace

void emulate(const Emulation& wanted) {
    emulation = wanted;
    call_count = 0;
    launch_count = 0;
}

int64_t calls() {
    return call_count.load();
}

int64_t held() {
    return held_count.load();
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
