// wgmma.h: products of a warp group of sm_90a: 64 rows by 48 to 256 columns, of bf16 with sums in f32. For .cu files
// alone; tests: tests/simt/hopper.h.
//
// d [64, N] (+)= a [64, 16] b [16, N]. Of lane l of warp w of the group, with g = l / 4 and t = l % 4, d[i] is the sum
// of row 16 w + g + 8 (i / 2 % 2) and column 8 (i / 4) + 2 t + i % 2; a in registers is laid out as in mma.h, so sums,
// packed in pairs, are a left factor. Factors in shared memory are described: begin_products() before, end_products()
// after a group of products, and no touching of d, a or the factors before wait_for_products().
#pragma once

#include "device/cuda/hopper.h"
#include "device/cuda/unroll.h"

namespace windlass {

// A factor in shared memory, of rows of 128 bytes as load_box() leaves them; eight rows are `stride` bytes from the
// next eight, 64 columns `leading` bytes from the next 64.
__device__ __forceinline__ uint64_t describe_factor(const void* at, unsigned leading, unsigned stride) {
    constexpr uint64_t kPermuted = uint64_t{1} << 62;  // by 128 bytes
    constexpr unsigned kField = 0x3ffff;
    return (shared_address(at) & kField) >> 4 | static_cast<uint64_t>((leading & kField) >> 4) << 16 |
           static_cast<uint64_t>((stride & kField) >> 4) << 32 | kPermuted;
}

__device__ __forceinline__ void begin_products() {
#ifdef __CUDACC__
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
    simt::begin_products(WINDLASS_SITE);
#endif
}
__device__ __forceinline__ void end_products() {
#ifdef __CUDACC__
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
    simt::end_products(WINDLASS_SITE);
#endif
}
// Until no more than the last kGroups groups are under way.
template <int kGroups>
__device__ __forceinline__ void wait_for_products() {
#ifdef __CUDACC__
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
#else
    simt::wait_for_products(WINDLASS_SITE, kGroups);
#endif
}
// The compiler moves nothing that it does with these numbers across this place: sums before they are given to a
// product, and after they are waited for. Without it ptxas waits after each product.
template <int kCount>
__device__ __forceinline__ void keep_here([[maybe_unused]] float (&numbers)[kCount]) {
#ifdef __CUDACC__
    WINDLASS_UNROLL
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(numbers[i])::"memory");
#endif
}

#ifdef __CUDACC__
#define WINDLASS_SUMS_8(i)                                                                                      \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define WINDLASS_SUMS_24 WINDLASS_SUMS_8(0), WINDLASS_SUMS_8(8), WINDLASS_SUMS_8(16)
#define WINDLASS_SUMS_32 WINDLASS_SUMS_24, WINDLASS_SUMS_8(24)
#define WINDLASS_SUMS_48 WINDLASS_SUMS_32, WINDLASS_SUMS_8(32), WINDLASS_SUMS_8(40)
#define WINDLASS_SUMS_64 WINDLASS_SUMS_48, WINDLASS_SUMS_8(48), WINDLASS_SUMS_8(56)
#define WINDLASS_SUMS_128                                                                                 \
    WINDLASS_SUMS_64, WINDLASS_SUMS_8(64), WINDLASS_SUMS_8(72), WINDLASS_SUMS_8(80), WINDLASS_SUMS_8(88), \
        WINDLASS_SUMS_8(96), WINDLASS_SUMS_8(104), WINDLASS_SUMS_8(112), WINDLASS_SUMS_8(120)
#define WINDLASS_NAMES_24                    \
    "%0, %1, %2, %3, %4, %5, %6, %7"         \
    ", %8, %9, %10, %11, %12, %13, %14, %15" \
    ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WINDLASS_NAMES_32 WINDLASS_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WINDLASS_NAMES_48                      \
    WINDLASS_NAMES_32                          \
    ", %32, %33, %34, %35, %36, %37, %38, %39" \
    ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WINDLASS_NAMES_64                      \
    WINDLASS_NAMES_48                          \
    ", %48, %49, %50, %51, %52, %53, %54, %55" \
    ", %56, %57, %58, %59, %60, %61, %62, %63"
#define WINDLASS_NAMES_128                             \
    WINDLASS_NAMES_64                                  \
    ", %64, %65, %66, %67, %68, %69, %70, %71"         \
    ", %72, %73, %74, %75, %76, %77, %78, %79"         \
    ", %80, %81, %82, %83, %84, %85, %86, %87"         \
    ", %88, %89, %90, %91, %92, %93, %94, %95"         \
    ", %96, %97, %98, %99, %100, %101, %102, %103"     \
    ", %104, %105, %106, %107, %108, %109, %110, %111" \
    ", %112, %113, %114, %115, %116, %117, %118, %119" \
    ", %120, %121, %122, %123, %124, %125, %126, %127"

// Operands after the sums, by number: the left factor, the right one, and whether the product is added.
#define WINDLASS_PRODUCT(columns, sums, a0, a1, a2, a3, b_of_registers, adds_of_registers, transposed_of_registers) \
    template <bool kTransposed>                                                                                     \
    __device__ __forceinline__ void multiply_shared(float(&d)[sums], uint64_t a, uint64_t b, bool adds) {           \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #a2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns    \
                     "k16.f32.bf16.bf16 {" WINDLASS_NAMES_##sums "}, %" #a0 ", %" #a1 ", p, 1, 1, 0, %" #a3 ";\n}"  \
                     : WINDLASS_SUMS_##sums                                                                         \
                     : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(kTransposed ? 1 : 0));                      \
    }                                                                                                               \
    template <bool kTransposed>                                                                                     \
    __device__ __forceinline__ void multiply_registers(float(&d)[sums], const uint32_t(&a)[4], uint64_t b,          \
                                                       bool adds) {                                                 \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #adds_of_registers                                        \
                     ", 0;\n"                                                                                       \
                     "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" WINDLASS_NAMES_##sums       \
                     "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_of_registers                               \
                     ", p, 1, 1, %" #transposed_of_registers ";\n}"                                                 \
                     : WINDLASS_SUMS_##sums                                                                         \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)),             \
                       "n"(kTransposed ? 1 : 0));                                                                   \
    }

WINDLASS_PRODUCT(48, 24, 24, 25, 26, 27, 28, 29, 30)
WINDLASS_PRODUCT(64, 32, 32, 33, 34, 35, 36, 37, 38)
WINDLASS_PRODUCT(96, 48, 48, 49, 50, 51, 52, 53, 54)
WINDLASS_PRODUCT(128, 64, 64, 65, 66, 67, 68, 69, 70)
WINDLASS_PRODUCT(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef WINDLASS_PRODUCT
#else
// a and b described; kTransposed: columns of b lie along its rows.
template <bool kTransposed, int kSums>
void multiply_shared(float (&d)[kSums], uint64_t a, uint64_t b, bool adds) {
    simt::multiply_group(WINDLASS_SITE, {d, 2 * kSums, nullptr, a, b, kTransposed, adds});
}
// a in registers.
template <bool kTransposed, int kSums>
void multiply_registers(float (&d)[kSums], const uint32_t (&a)[4], uint64_t b, bool adds) {
    simt::multiply_group(WINDLASS_SITE, {d, 2 * kSums, a, 0, b, kTransposed, adds});
}
#endif

}  // namespace windlass
