// values_cuda.h: values and weights as CUDA kernels see them: plain structs, which cells fill (cells_cuda.h).
#pragma once

#include <cstdint>

#include "device/cuda/launch.h"

namespace windlass {

// [T, C] in the type of the computation, rows `stride` numbers apart. Null: zeros, or not wanted.
struct CudaValue {
    void* data = nullptr;
    int64_t stride = 0;
    bool adds = false;  // what is written is added to what is there, and rounded once
};

// A weight's numbers one after the other: f32, or bf16, to which the low halves of split masters are joined where they
// are given.
struct CudaWeight {
    const void* base = nullptr;
    const int16_t* low = nullptr;
    bool is_bf16 = false;
};

}  // namespace windlass
