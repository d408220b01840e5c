// async_copy.h: copies from global to shared memory that a thread starts and waits for later. For .cu files alone;
// tests: tests/simt/matrix.h.
//
// A thread waits for its own copies; a barrier after the wait shows them to the others.
#pragma once

#include "device/cuda/kernel.h"

namespace windlass {

// 16 bytes, both sides aligned so; zeros where `given` is false, and nothing is read.
__device__ inline void start_copy(void* shared, const void* global, bool given) {
#ifdef __CUDACC__
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
        "l"(__cvta_generic_to_global(global)), "r"(given ? 16 : 0)
        : "memory");
#else
    simt::start_copy(shared, global, given);
#endif
}

// The copies since the last call are one group.
__device__ inline void end_copy_group() {
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    simt::end_copy_group();
#endif
}

// Until no more than the last `kGroups` groups are under way.
template <int kGroups>
__device__ inline void wait_for_copies() {
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#else
    simt::wait_for_copies(kGroups);
#endif
}

}  // namespace windlass
