// launch.h: what a kernel's launch is, in plain types: sources that nvcc reads include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace windlass {

struct CudaStreamTag;
struct CudaEventTag;
using CudaStreamHandle = CudaStreamTag*;
using CudaEventHandle = CudaEventTag*;

// Counts of blocks are as long as their factors make them: launch_kernel() refuses those that no card takes.
struct CudaGrid {
    int64_t blocks = 1;    // along x
    unsigned threads = 1;  // of a block
    unsigned shared_bytes = 0;
    int64_t rows = 1;  // blocks along y
};

// A kernel takes one argument, a plain struct by value.
struct CudaKernelCall {
    const char* name = nullptr;
    const void* kernel = nullptr;
    // Calls `kernel` as a function of the host; null where a compiler for devices made it.
    void (*run)(const void* kernel, const void* args) = nullptr;
    void* args = nullptr;
    size_t arg_bytes = 0;
    CudaGrid grid;
};

// Throws DeviceError, and UserError(gpu) for a grid that no card takes.
void launch_kernel(CudaStreamHandle stream, const CudaKernelCall& call);

}  // namespace windlass
