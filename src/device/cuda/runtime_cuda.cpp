// NVIDIA's runtime, linked into the program: it finds the driver by itself, or says that there is none.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cuda/any_kernel.h"
#include "device/cuda/runtime.h"

namespace windlass {
namespace {

// What a call returned, where it was not success.
void require(cudaError_t code, std::string_view call) {
    if (code != cudaSuccess) throw DeviceError(call, code, cudaGetErrorName(code));
}

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// A function of the driver, which is not linked: the runtime finds it.
using EncodeTiled = decltype(&cuTensorMapEncodeTiled);
EncodeTiled find_encode_tiled() {
    constexpr int kFirstWithIt = 12000;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    require(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kFirstWithIt, cudaEnableDefault, &result),
        "cudaGetDriverEntryPointByVersion");
    if (result != cudaDriverEntryPointSuccess)
        throw DeviceError("cuTensorMapEncodeTiled", cudaErrorSymbolNotFound, "the driver has no such function");
    return reinterpret_cast<EncodeTiled>(found);
}

cudaStream_t of(CudaStreamHandle stream) {
    return reinterpret_cast<cudaStream_t>(stream);
}
cudaEvent_t of(CudaEventHandle event) {
    return reinterpret_cast<cudaEvent_t>(event);
}

class Cudart : public CudaRuntime {
  public:
    std::string name() const override { return "CUDA " + version_text(CUDART_VERSION); }

    int device_count() override {
        int driver = 0, count = 0;
        if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
            throw UserError(ExitCode::gpu, "device", "NVIDIA's driver (libcuda.so.1) is not found on this machine")
                .hint("device: cpu, or install the driver until nvidia-smi lists the card (docs/guide/gpu.md)");
        if (driver < CUDART_VERSION / 1000 * 1000)
            throw UserError(ExitCode::gpu, "device", "the driver is for CUDA {}, and this windlass was built with {}",
                            version_text(driver), version_text(CUDART_VERSION))
                .hint("device: cpu, or the driver that docs/guide/gpu.md names");
        const cudaError_t code = cudaGetDeviceCount(&count);
        if (code == cudaErrorNoDevice) return 0;
        require(code, "cudaGetDeviceCount");
        return count;
    }

    CudaProperties properties(int device) override {
        cudaDeviceProp found{};
        require(cudaGetDeviceProperties(&found, device), "cudaGetDeviceProperties");
        return {.name = found.name,
                .capability = 10 * found.major + found.minor,
                .multiprocessors = found.multiProcessorCount,
                .memory_bytes = static_cast<int64_t>(found.totalGlobalMem),
                .cache_bytes = found.l2CacheSize};
    }

    int64_t free_bytes(int device) override {
        size_t free = 0, all = 0;
        choose(device);
        require(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
        return static_cast<int64_t>(free);
    }

    // All kernels of a program are compiled for the same cards, so one answers for all. Later calls name other reasons.
    void require_kernels(int device) override {
        cudaFuncAttributes found{};
        choose(device);
        const cudaError_t code = cudaFuncGetAttributes(&found, any_kernel());
        if (code == cudaSuccess) return;
        cudaGetLastError();
        if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) refuse(device);
        require(code, "cudaFuncGetAttributes");
    }

    CudaAllocation allocate(int device, int64_t bytes) override {
        void* memory = nullptr;
        choose(device);
        const cudaError_t code = cudaMalloc(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
        if (code == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            throw UserError(ExitCode::no_fit, "device_memory", "cuda:{} refuses {} bytes, {} are free", device, bytes,
                            free_bytes(device))
                .hint("less device_memory, or end what else is on the card: nvidia-smi names it");
        }
        require(code, "cudaMalloc");
        return {static_cast<std::byte*>(memory), static_cast<std::byte*>(memory)};
    }
    void release(int, const CudaAllocation& memory) noexcept override { cudaFree(memory.there); }

    std::byte* allocate_shared(int device, int64_t bytes) override {
        void* memory = nullptr;
        choose(device);
        require(cudaMallocManaged(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1))), "cudaMallocManaged");
        return static_cast<std::byte*>(memory);
    }
    void release_shared(std::byte* memory) noexcept override { cudaFree(memory); }

    // Registered with all devices, and made by the context of one: without a choice that is of device 0.
    bool pin(int device, std::span<std::byte> host) override {
        choose(device);
        if (cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable) == cudaSuccess) return true;
        cudaGetLastError();
        return false;
    }
    // One registration of several hundred GiB is said to fail; no card of ours has tried. Parts are safe.
    int64_t pinned_part_bytes() const override { return int64_t{64} << 30; }
    void unpin(std::byte* host) noexcept override { cudaHostUnregister(host); }

    CudaStreamHandle make_stream(int device) override {
        cudaStream_t stream = nullptr;
        choose(device);
        require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
        return reinterpret_cast<CudaStreamHandle>(stream);
    }
    void release(CudaStreamHandle stream) noexcept override { cudaStreamDestroy(of(stream)); }
    int use_device_of(CudaStreamHandle stream) override {
        int device = 0;
        require(cudaStreamGetDevice(of(stream), &device), "cudaStreamGetDevice");
        choose(device);
        return device;
    }
    void use_device(int device) override { choose(device); }
    void synchronize(CudaStreamHandle stream) override {
        require(cudaStreamSynchronize(of(stream)), "cudaStreamSynchronize");
    }

    // Waiting blocks instead of spinning: the thread that waits is one of few.
    CudaEventHandle make_event(int device) override {
        cudaEvent_t event = nullptr;
        choose(device);
        require(cudaEventCreateWithFlags(&event, cudaEventBlockingSync), "cudaEventCreateWithFlags");
        return reinterpret_cast<CudaEventHandle>(event);
    }
    void release(CudaEventHandle event) noexcept override { cudaEventDestroy(of(event)); }

    void record(CudaStreamHandle stream, CudaEventHandle event) override {
        require(cudaEventRecord(of(event), of(stream)), "cudaEventRecord");
    }
    void wait_for(CudaStreamHandle stream, CudaEventHandle event) override {
        require(cudaStreamWaitEvent(of(stream), of(event), 0), "cudaStreamWaitEvent");
    }
    void copy(CudaStreamHandle stream, void* to, const void* from, int64_t bytes) override {
        require(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, of(stream)),
                "cudaMemcpyAsync");
    }
    void clear(CudaStreamHandle stream, void* to, int64_t bytes) override {
        require(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), of(stream)), "cudaMemsetAsync");
    }
    void launch(CudaStreamHandle stream, const CudaKernelCall& call) override {
        std::array<void*, 1> args = {call.args};
        const int device = use_device_of(stream);  // kernels are launched by threads that have chosen none
        const CudaGrid& grid = call.grid;
        allow_shared(device, call);
        const dim3 blocks(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.rows));
        require(cudaLaunchKernel(call.kernel, blocks, dim3(grid.threads), args.data(), grid.shared_bytes, of(stream)),
                call.name);
    }
    CudaArchitecture architecture(CudaStreamHandle stream) override {
        const int device = use_device_of(stream);
        const auto attribute = [&](cudaDeviceAttr which) {
            int value = 0;
            require(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
            return value;
        };
        return {.capability =
                    10 * attribute(cudaDevAttrComputeCapabilityMajor) + attribute(cudaDevAttrComputeCapabilityMinor),
                .multiprocessors = attribute(cudaDevAttrMultiProcessorCount)};
    }
    TensorMap tensor_map(const TensorBoxes& boxes) override {
        static const EncodeTiled encode = find_encode_tiled();
        constexpr cuuint32_t kRank = 4;
        constexpr cuuint64_t kNumberBytes = 2;
        const cuuint64_t sizes[kRank] = {static_cast<cuuint64_t>(boxes.columns), static_cast<cuuint64_t>(boxes.heads),
                                         static_cast<cuuint64_t>(boxes.tokens), static_cast<cuuint64_t>(boxes.rows)};
        const cuuint64_t strides[kRank - 1] = {kNumberBytes * static_cast<cuuint64_t>(boxes.head_stride),
                                               kNumberBytes * static_cast<cuuint64_t>(boxes.token_stride),
                                               kNumberBytes * static_cast<cuuint64_t>(boxes.row_stride)};
        const cuuint32_t box[kRank] = {kBoxColumns, 1, static_cast<cuuint32_t>(boxes.box_tokens), 1};
        const cuuint32_t steps[kRank] = {1, 1, 1, 1};
        CUtensorMap made;
        const CUresult code =
            encode(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kRank, const_cast<void*>(boxes.data), sizes, strides, box,
                   steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        if (code != CUDA_SUCCESS) throw DeviceError("cuTensorMapEncodeTiled", code, "the driver refuses these boxes");
        static_assert(sizeof(made) == sizeof(TensorMap));
        return std::bit_cast<TensorMap>(made);
    }
    void wait(CudaEventHandle event) override { require(cudaEventSynchronize(of(event)), "cudaEventSynchronize"); }
    double seconds_between(CudaEventHandle begin, CudaEventHandle end) override {
        float milliseconds = 0;
        require(cudaEventElapsedTime(&milliseconds, of(begin), of(end)), "cudaEventElapsedTime");
        return 1e-3 * static_cast<double>(milliseconds);
    }

  private:
    // More shared memory than a kernel has unasked is asked for, and never less again: streams launch one kernel with
    // different sizes at once.
    void allow_shared(int device, const CudaKernelCall& call) {
        constexpr unsigned kUnasked = 48u << 10;
        const unsigned bytes = call.grid.shared_bytes;
        if (bytes <= kUnasked) return;
        const std::lock_guard lock(mutex_);
        unsigned& allowed = allowed_[{device, call.kernel}];
        if (bytes <= allowed) return;
        require(cudaFuncSetAttribute(call.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                call.name);
        allowed = bytes;
    }
    static void choose(int device) { require(cudaSetDevice(device), "cudaSetDevice"); }
    [[noreturn]] void refuse(int device) {
        throw UserError(ExitCode::gpu, "device",
                        "cuda:{} is of compute capability {}.{}, and this windlass has kernels for {}", device,
                        properties(device).capability / 10, properties(device).capability % 10, WINDLASS_CUDA_CARDS)
            .hint(
                "device: cpu, or a build for this card, of 8.0 or newer: cmake --preset release "
                "-DWINDLASS_CUDA_TARGETS=cards && cmake --build --preset release");
    }

    std::mutex mutex_;
    std::map<std::pair<int, const void*>, unsigned> allowed_;  // bytes of shared memory, by device and kernel
};

}  // namespace

CudaRuntime* find_cuda_runtime() {
    static Cudart runtime;
    return &runtime;
}

std::string cuda_build() {
    return find_cuda_runtime()->name() + ", kernels for compute capability " WINDLASS_CUDA_CARDS;
}

}  // namespace windlass
