// pointwise_kernel_cuda.h: the kernel of ops that work number by number. For .cu files alone.
//
// A Function has kIn, kOut and static void apply(const float* in, float* out). One that goes by more than its values
// has Args of its own, which begin as PointwiseArgs do, and apply(args, row, col, in, out). Numbers are moved 16 bytes
// at a time where all rows are aligned so, else one by one.
#pragma once

#include "op/numbers_cuda.h"
#include "op/pointwise_cuda.h"

namespace windlass {

template <typename Function, typename Args>
__device__ void apply_at(const Args& args, int64_t row, int64_t col, const float* in, float* out) {
    if constexpr (requires { Function::apply(args, row, col, in, out); })
        Function::apply(args, row, col, in, out);
    else
        Function::apply(in, out);
}

template <typename Function, typename T, int kPack, typename Args>
__global__ void pointwise_kernel(Args args) {
    const int64_t packs = args.cols / kPack, count = args.rows * packs;
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += step) {
        const int64_t row = quotient(at, packs), col = (at - row * packs) * kPack;
        const int64_t own_row = args.own == 0 ? row : row - quotient(row, args.tokens) * args.tokens;
        Pack<T, kPack> in[Function::kIn] = {}, out[Function::kOut] = {};
        for (int i = 0; i < Function::kIn; ++i) {
            const CudaValue& value = args.in[i];
            if (value.data == nullptr) continue;
            const T* const from = static_cast<const T*>(value.data) + (i < args.own ? own_row : row) * value.stride;
            in[i] = *reinterpret_cast<const Pack<T, kPack>*>(from + col);
        }
        for (int i = 0; i < Function::kOut; ++i)
            if (args.out[i].data != nullptr && args.out[i].adds)
                out[i] = *reinterpret_cast<const Pack<T, kPack>*>(static_cast<const T*>(args.out[i].data) +
                                                                  row * args.out[i].stride + col);
        for (int n = 0; n < kPack; ++n) {
            float x[Function::kIn], y[Function::kOut];
            for (int i = 0; i < Function::kIn; ++i) x[i] = widen(in[i].numbers[n]);
            apply_at<Function>(args, row, col + n, x, y);
            for (int i = 0; i < Function::kOut; ++i)
                out[i].numbers[n] = narrow<T>(args.out[i].adds ? widen(out[i].numbers[n]) + y[i] : y[i]);
        }
        for (int i = 0; i < Function::kOut; ++i)
            if (args.out[i].data != nullptr)
                *reinterpret_cast<Pack<T, kPack>*>(static_cast<T*>(args.out[i].data) + row * args.out[i].stride + col) =
                    out[i];
    }
}

template <typename Function, typename T, typename Args>
void launch_pointwise_of(const Args& args, CudaStreamHandle stream) {
    constexpr int64_t kThreads = 256, kBlocksMax = 4096;
    constexpr int kPack = 16 / sizeof(T);
    bool aligned = args.cols % kPack == 0;
    for (int i = 0; i < Function::kIn; ++i) aligned = aligned && has_aligned_packs(args.in[i], sizeof(T));
    for (int i = 0; i < Function::kOut; ++i) aligned = aligned && has_aligned_packs(args.out[i], sizeof(T));
    const int64_t count = args.rows * args.cols / (aligned ? kPack : 1);
    const int64_t blocks = (count + kThreads - 1) / kThreads;
    const CudaGrid grid{.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = kThreads};
    launch(stream, grid, aligned ? pointwise_kernel<Function, T, kPack, Args> : pointwise_kernel<Function, T, 1, Args>,
           args, Function::kName);
}

template <typename Function, typename Args>
void launch_pointwise(bool is_bf16, const Args& args, CudaStreamHandle stream) {
    WINDLASS_BY_TYPE(is_bf16, T, launch_pointwise_of<Function, T>(args, stream));
}

}  // namespace windlass
