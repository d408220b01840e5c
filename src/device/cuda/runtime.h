// runtime.h: the one door to CUDA devices: everything else that speaks to one calls this.
//
// A program links one runtime: NVIDIA's (runtime_cuda.cpp), none (no_cuda.cpp), which has no devices and says why, or
// that of the tests, which runs kernels on the CPU (tests/simt). Calls that a device refuses throw DeviceError.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "device/cuda/launch.h"
#include "device/cuda/tensor_map.h"

namespace windlass {

struct CudaProperties {
    std::string name;    // "NVIDIA H200"
    int capability = 0;  // 90: compute capability 9.0
    int multiprocessors = 0;
    int64_t memory_bytes = 0;
    int64_t cache_bytes = 0;  // level 2
};

// What decides how work is cut and which kernels do it.
struct CudaArchitecture {
    int capability = 0, multiprocessors = 0;
};
inline constexpr int kHopper = 90;  // the capability with kernels of its own (hopper.h)

// Memory of a device: where its work finds it, and the address that the host knows it by. Who follows the latter on the
// host faults.
struct CudaAllocation {
    std::byte* there = nullptr;
    std::byte* here = nullptr;
};

class CudaRuntime {
  public:
    virtual ~CudaRuntime() = default;
    // "CUDA 13.0", "emulated".
    virtual std::string name() const = 0;
    // Throws UserError(gpu) where there is no driver, one that is too old, or no device.
    virtual int device_count() = 0;
    virtual CudaProperties properties(int device) = 0;
    virtual int64_t free_bytes(int device) = 0;
    // Throws UserError(gpu) if this program has no kernels for the device.
    virtual void require_kernels(int device) = 0;

    // Throws UserError(no_fit) where there is less; 256-byte aligned.
    virtual CudaAllocation allocate(int device, int64_t bytes) = 0;
    virtual void release(int device, const CudaAllocation& memory) noexcept = 0;
    // Memory that the host and every device reach, one of them at a time. Slow: for tests of kernels on `device`.
    virtual std::byte* allocate_shared(int device, int64_t bytes) = 0;
    virtual void release_shared(std::byte* memory) noexcept = 0;
    // Host memory that devices copy from and to without staging; `device` is one that this process uses anyway. False:
    // the system refuses. No copy may lie in two registrations, or in one and in memory without.
    virtual bool pin(int device, std::span<std::byte> host) = 0;
    // The most that one registration takes.
    virtual int64_t pinned_part_bytes() const = 0;
    virtual void unpin(std::byte* host) noexcept = 0;

    virtual CudaStreamHandle make_stream(int device) = 0;
    virtual void release(CudaStreamHandle stream) noexcept = 0;
    // Calls of other libraries by this thread are for the stream's device from now on. Returns its index.
    virtual int use_device_of(CudaStreamHandle stream) = 0;
    virtual void use_device(int device) = 0;
    // Returns when all work of the stream has ended, and then throws what failed, this call included.
    virtual void synchronize(CudaStreamHandle stream) = 0;
    virtual CudaEventHandle make_event(int device) = 0;
    virtual void release(CudaEventHandle event) noexcept = 0;

    // All return at once; what is asked is done in the order of the stream.
    virtual void record(CudaStreamHandle stream, CudaEventHandle event) = 0;
    virtual void wait_for(CudaStreamHandle stream, CudaEventHandle event) = 0;
    virtual void copy(CudaStreamHandle stream, void* to, const void* from, int64_t bytes) = 0;
    virtual void clear(CudaStreamHandle stream, void* to, int64_t bytes) = 0;
    virtual void launch(CudaStreamHandle stream, const CudaKernelCall& call) = 0;

    // Of the stream's device; quick.
    virtual CudaArchitecture architecture(CudaStreamHandle stream) = 0;
    // Of memory of a device of compute capability 9.0 or newer; about a microsecond.
    virtual TensorMap tensor_map(const TensorBoxes& boxes) = 0;

    // Returns when the event is complete; throws what the device failed with.
    virtual void wait(CudaEventHandle event) = 0;
    // Between two complete events, from a float of milliseconds: the shorter, the more precise.
    virtual double seconds_between(CudaEventHandle begin, CudaEventHandle end) = 0;
};

// Null: this program was built without CUDA.
CudaRuntime* find_cuda_runtime();
// How this program was built: "CUDA 13.0, kernels for compute capability 9.0", or why without: "nvcc is not found".
std::string cuda_build();
// Throws UserError(gpu) that says why there is none.
CudaRuntime& cuda_runtime();

}  // namespace windlass
