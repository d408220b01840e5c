#include "op/head_kernels_cuda.h"
#include "op/numbers_cuda.h"

namespace windlass {
namespace head_kernels {

// The greatest of the block's numbers, in every thread. `room`: as for block_sum.
__device__ float block_max(float x, float* room) {
    for (int apart = kWarp / 2; apart > 0; apart /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, apart));
    if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = x;
    __syncthreads();
    float greatest = room[0];
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) greatest = fmaxf(greatest, room[warp]);
    __syncthreads();
    return greatest;
}

// log sum_v exp(x_v), without overflow.
__device__ double log_sum_exp(const float* logits, int64_t count, float* room) {
    float greatest = -INFINITY;
    for (int64_t v = threadIdx.x; v < count; v += blockDim.x) greatest = fmaxf(greatest, logits[v]);
    greatest = block_max(greatest, room);
    float sum = 0;
    for (int64_t v = threadIdx.x; v < count; v += blockDim.x) sum += expf(logits[v] - greatest);
    return static_cast<double>(greatest) + log(static_cast<double>(block_sum(sum, room)));
}

// 0 where no id is likelier than the target, and none of a lower number as likely. Else 1. NaN where the target's is.
__device__ float miss_of(const float* logits, int64_t vocab, int64_t target, float* room) {
    const float wanted = logits[target];
    float better = 0;
    for (int64_t v = threadIdx.x; v < vocab; v += blockDim.x)
        if (v < target ? logits[v] >= wanted : v > target && logits[v] > wanted) better = 1;
    const float any = block_max(better, room);
    return isnan(wanted) ? wanted : any;
}

// The likeliest of ids below `count`, the lowest of equals; NaN where one is no number. Ids are exact in f32.
__device__ float likeliest_of(const float* logits, int64_t count, float* room) {
    float greatest = -INFINITY, no_number = 0;
    for (int64_t v = threadIdx.x; v < count; v += blockDim.x) {
        greatest = fmaxf(greatest, logits[v]);
        if (isnan(logits[v])) no_number = 1;
    }
    greatest = block_max(greatest, room);
    no_number = block_max(no_number, room);
    float lowest = -INFINITY;  // negative: the greatest of those is the lowest id
    for (int64_t v = threadIdx.x; v < count; v += blockDim.x)
        if (logits[v] == greatest) lowest = fmaxf(lowest, -static_cast<float>(v));
    lowest = block_max(lowest, room);
    return no_number > 0 ? NAN : -lowest;
}

__global__ void shape_kernel(HeadShapeArgs args) {
    float* const logits = args.logits + static_cast<int64_t>(blockIdx.x) * args.stride;
    for (int64_t v = threadIdx.x; v < args.vocab; v += blockDim.x) {
        const float x = args.scale * logits[v];
        logits[v] = args.softcap > 0 ? args.softcap * tanhf(x / args.softcap) : x;
    }
}

// dz/dx of a logit that became z.
template <typename Args>
__device__ float slope_of(const Args& args, float z) {
    if (args.softcap == 0) return args.logit_scale;
    const float t = z / args.softcap;
    return args.logit_scale * (1.0f - t * t);
}

// scale (p - one at the target) in place of a row of logits. As bf16 it takes the first half of the row: what is
// written ends before what is still to be read, of each stretch that the block reads as one.
__device__ void write_gradient(const HeadRowArgs& args, float* logits, int64_t target, float log_sum) {
    const float scale = args.scales == nullptr ? args.scale : args.scales[blockIdx.x * args.scales_stride];
    for (int64_t begin = 0; begin < args.vocab; begin += blockDim.x) {
        const int64_t v = begin + threadIdx.x;
        float gradient = 0;
        if (v < args.vocab && target >= 0) {
            gradient = scale * expf(logits[v] - log_sum);
            if (v == target) gradient -= scale;
            gradient *= slope_of(args, logits[v]);
        }
        __syncthreads();
        if (v >= args.vocab) continue;
        if (args.narrows)
            reinterpret_cast<bf16*>(logits)[v] = narrow<bf16>(gradient);
        else
            logits[v] = gradient;
    }
}

template <HeadRow kWhat>
__global__ void row_kernel(HeadRowArgs args) {
    float* const room = shared_memory<float>();
    const int64_t row = blockIdx.x;
    float* const logits = args.logits + row * args.stride;
    const int32_t target = args.targets[row];
    const bool ignored = target == args.ignored;
    float out = 0;
    if (kWhat == HeadRow::log_sum) {
        out = static_cast<float>(log_sum_exp(logits, args.vocab, room));
    } else if (!ignored && kWhat == HeadRow::is_wrong) {
        out = miss_of(logits, args.vocab, target, room);
    } else if (!ignored && kWhat == HeadRow::argmax) {
        out = likeliest_of(logits, args.id_count, room);
    } else if (!ignored) {
        const double log_sum = log_sum_exp(logits, args.vocab, room);
        out = static_cast<float>(log_sum - static_cast<double>(logits[target]));
        __syncthreads();
        if (kWhat == HeadRow::gradient) write_gradient(args, logits, target, static_cast<float>(log_sum));
    } else if (kWhat == HeadRow::gradient) {
        write_gradient(args, logits, -1, 0);
    }
    if (args.out != nullptr && threadIdx.x == 0) args.out[row * args.out_stride] = out;
}

__global__ void tangent_kernel(HeadTangentArgs args) {
    const int64_t row = blockIdx.x, target = args.targets[row];
    if (target == args.ignored) {
        if (threadIdx.x == 0) args.out[row * args.out_stride] = 0;
        return;
    }
    const float* const logits = args.logits + row * args.stride;
    float expected = 0, at_target = 0;
    for (int64_t v = threadIdx.x; v < args.vocab; v += blockDim.x) {
        float change = args.change == nullptr ? 0 : args.change[row * args.stride + v];
        for (const HeadFactorArgs& factors : args.factors) {
            for (int64_t r = 0; r < factors.rank; ++r)
                change += factors.products[row * factors.products_stride + r] * factors.left[r * args.vocab + v];
        }
        change *= slope_of(args, logits[v]);
        expected += expf(logits[v] - args.log_sums[row]) * change;
        if (v == target) at_target = change;
    }
    float* const room = shared_memory<float>();
    expected = block_sum(expected, room);
    at_target = block_sum(at_target, room);
    if (threadIdx.x == 0) args.out[row * args.out_stride] = expected - at_target;
}

CudaGrid grid_of(int64_t rows, int64_t vocab) {
    const unsigned threads = vocab < 4096 ? 128 : 512;
    return {.blocks = rows, .threads = threads, .shared_bytes = threads / kWarp * static_cast<unsigned>(sizeof(float))};
}

}  // namespace head_kernels

void launch_head_shape(const HeadShapeArgs& args, CudaStreamHandle stream) {
    launch(stream, head_kernels::grid_of(args.rows, args.vocab), head_kernels::shape_kernel, args, "head logits");
}

void launch_head_rows(HeadRow what, const HeadRowArgs& args, CudaStreamHandle stream) {
    switch (what) {
        case HeadRow::loss:
            return launch(stream, head_kernels::grid_of(args.rows, args.vocab), head_kernels::row_kernel<HeadRow::loss>,
                          args, "head loss");
        case HeadRow::is_wrong:
            return launch(stream, head_kernels::grid_of(args.rows, args.vocab),
                          head_kernels::row_kernel<HeadRow::is_wrong>, args, "head misses");
        case HeadRow::argmax:
            return launch(stream, head_kernels::grid_of(args.rows, args.vocab),
                          head_kernels::row_kernel<HeadRow::argmax>, args, "head likeliest");
        case HeadRow::gradient:
            return launch(stream, head_kernels::grid_of(args.rows, args.vocab),
                          head_kernels::row_kernel<HeadRow::gradient>, args, "head gradient");
        case HeadRow::log_sum:
            return launch(stream, head_kernels::grid_of(args.rows, args.vocab),
                          head_kernels::row_kernel<HeadRow::log_sum>, args, "head log sums");
    }
}

void launch_head_tangents(const HeadTangentArgs& args, CudaStreamHandle stream) {
    launch(stream, head_kernels::grid_of(args.rows, args.vocab), head_kernels::tangent_kernel, args, "head tangents");
}

}  // namespace windlass
