// hopper.h: instructions of sm_90a: barriers in shared memory, boxes that the copy engine moves, registers that warps
// give to others. For .cu files alone; tests: tests/simt/hopper.h. Products: wgmma.h.
//
// A barrier counts arrivals, and bytes that arrive. A phase ends when both are complete; the next one begins at once.
// Who waits names the parity of a phase: the first phase has parity 0. A wait for the parity before it returns at once.
#pragma once

#include "device/cuda/kernel.h"
#include "device/cuda/tensor_map.h"

namespace windlass {

inline constexpr int kWarpGroup = 128;  // threads: four warps, which multiply together

struct alignas(8) Barrier {
    uint64_t word;
};

// Where the hardware finds a place in shared memory.
__device__ inline uint32_t shared_address(const void* at) {
#ifdef __CUDACC__
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
#else
    return simt::shared_offset(at);
#endif
}

// What this thread has stored in shared memory, products and the copy engine see from now on.
__device__ inline void show_stores() {
#ifdef __CUDACC__
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    simt::show_stores();
#endif
}

// One thread makes a block's barriers and then shows them to the copy engine; __syncthreads() after that shows them to
// the other threads.
__device__ inline void make_barrier(Barrier* barrier, unsigned arrivals) {
#ifdef __CUDACC__
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
#else
    simt::make_barrier(&barrier->word, arrivals);
#endif
}
__device__ inline void show_barriers() {
#ifdef __CUDACC__
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
    simt::show_barriers();
#endif
    show_stores();
}

__device__ inline void arrive(Barrier* barrier) {
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
    simt::arrive(WINDLASS_SITE, &barrier->word, 0);
#endif
}
__device__ inline void arrive_expecting(Barrier* barrier, unsigned bytes) {
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
#else
    simt::arrive(WINDLASS_SITE, &barrier->word, bytes);
#endif
}
__device__ inline void wait_for(Barrier* barrier, unsigned parity) {
#ifdef __CUDACC__
    asm volatile(
        "{\n.reg .pred P1;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra WAIT;\n"
        "DONE:\n}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
#else
    simt::wait_for(WINDLASS_SITE, &barrier->word, parity);
#endif
}

// The box from a place on to shared memory, 1024-byte aligned; its bytes arrive at the barrier. In memory each of its
// rows has 128 bytes, whose 16-byte parts are permuted by the row's number modulo 8.
__device__ inline void load_box(void* to, const TensorMap* map, const BoxPlace& from, Barrier* barrier) {
#ifdef __CUDACC__
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(from.column), "r"(from.head), "r"(from.token), "r"(from.row)
        : "memory");
#else
    simt::load_box(WINDLASS_SITE, to, *map, from, &barrier->word);
#endif
}

// Registers of each thread of a warp group: all groups together have what the block was started with, threads x (65,536
// / threads, rounded down to a multiple of 8). A card waits forever for more.
template <int kCount>
__device__ inline void give_registers() {
#ifdef __CUDACC__
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
#else
    simt::give_registers(WINDLASS_SITE, kCount);
#endif
}
template <int kCount>
__device__ inline void take_registers() {
#ifdef __CUDACC__
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
#else
    simt::take_registers(WINDLASS_SITE, kCount);
#endif
}

// Barriers 1 to 15 of a block, by number: `threads` of it come, and those that wait go on when all have.
__device__ inline void wait_at(int number, int threads) {
#ifdef __CUDACC__
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
#else
    simt::come_to(WINDLASS_SITE, number, threads, /*waits=*/true);
#endif
}
__device__ inline void arrive_at(int number, int threads) {
#ifdef __CUDACC__
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
#else
    simt::come_to(WINDLASS_SITE, number, threads, /*waits=*/false);
#endif
}

}  // namespace windlass
