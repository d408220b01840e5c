// visible.h: an allocator of memory that the host and the devices of this program both reach.
#pragma once

#include <new>
#include <vector>

#include "base/error.h"
#include "device/cuda/runtime.h"

namespace windlass::agree {

// The runtime of this program where it has a device; else null.
inline CudaRuntime* usable_cuda() {
    static CudaRuntime* const usable = []() -> CudaRuntime* {
        CudaRuntime* const runtime = find_cuda_runtime();
        try {
            return runtime == nullptr || runtime->device_count() == 0 ? nullptr : runtime;
        } catch (const Error&) {
            return nullptr;  // no driver
        }
    }();
    return usable;
}

template <typename T>
struct Visible {
    using value_type = T;
    Visible() = default;
    template <typename Other>
    Visible(const Visible<Other>&) {}
    T* allocate(size_t count) {
        CudaRuntime* const cuda = usable_cuda();
        if (cuda == nullptr) return static_cast<T*>(::operator new(count * sizeof(T)));
        return reinterpret_cast<T*>(cuda->allocate_shared(/*device=*/0, static_cast<int64_t>(count * sizeof(T))));
    }
    void deallocate(T* memory, size_t) {
        CudaRuntime* const cuda = usable_cuda();
        if (cuda == nullptr) return ::operator delete(memory);
        cuda->release_shared(reinterpret_cast<std::byte*>(memory));
    }
    bool operator==(const Visible&) const { return true; }
};

template <typename T>
using VisibleVector = std::vector<T, Visible<T>>;

}  // namespace windlass::agree
