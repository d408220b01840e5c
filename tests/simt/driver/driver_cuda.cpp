#include "tests/simt/driver/driver_cuda.h"

#include <cstring>
#include <mutex>

#include "device/cuda/any_kernel.h"

namespace windlass {
namespace driver {
namespace {

std::mutex mutex;
Driver state;
thread_local int current = 0;  // as of a thread that has chosen none

void use(int device) {
    const std::lock_guard lock(mutex);
    state.contexts.insert(device);
}

// A stream or an event is memory of one byte; it knows its device.
struct Handle {
    int device = 0;
};
template <typename Pointer>
cudaError_t make_handle(Pointer* made) {
    use(current);
    *made = reinterpret_cast<Pointer>(new Handle{current});
    return cudaSuccess;
}

cudaError_t allocate(void** memory, size_t bytes) {
    use(current);
    const std::lock_guard lock(mutex);
    ++state.allocations;
    *memory = ::operator new(bytes);
    return cudaSuccess;
}

}  // namespace

void set_driver(const Driver& wanted) {
    const std::lock_guard lock(mutex);
    state = wanted;
}

Driver driver() {
    const std::lock_guard lock(mutex);
    return state;
}

}  // namespace driver

// A kernel of this program, as far as its address goes.
const void* any_kernel() {
    return &driver::state;
}

}  // namespace windlass

using windlass::driver::current;
using windlass::driver::state;
using windlass::driver::use;

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
    *count = state.devices;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
    std::memset(found, 0, sizeof *found);
    std::strcpy(found->name, "a card of the tests");
    found->major = 7;
    found->minor = 5;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
    *value = 7;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
    *function = nullptr;
    return cudaErrorSymbolNotFound;
}
const char* cudaGetErrorName(cudaError_t) {
    return "an error of the tests";
}
cudaError_t cudaGetLastError() {
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    current = device;
    use(device);  // since CUDA 12 it makes the context
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
    use(current);
    *free = *all = size_t{1} << 30;
    return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    return windlass::driver::allocate(memory, bytes);
}
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned) {
    return windlass::driver::allocate(memory, bytes);
}
cudaError_t cudaFree(void* memory) {
    ::operator delete(memory);
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void*, size_t, unsigned) {
    use(current);
    return cudaSuccess;
}
cudaError_t cudaHostUnregister(void*) {
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    return windlass::driver::make_handle(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    delete reinterpret_cast<windlass::driver::Handle*>(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    *device = reinterpret_cast<windlass::driver::Handle*>(stream)->device;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    return windlass::driver::make_handle(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete reinterpret_cast<windlass::driver::Handle*>(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = 0;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t) {
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void* kernel) {
    use(current);
    std::memset(found, 0, sizeof *found);
    return kernel == windlass::any_kernel() ? state.of_kernel : cudaErrorInvalidValue;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
    const std::lock_guard lock(windlass::driver::mutex);
    state.shared_bytes.push_back({current, kernel, value});
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) {
    const std::lock_guard lock(windlass::driver::mutex);
    ++state.launches;
    return cudaSuccess;
}

}  // extern "C"
