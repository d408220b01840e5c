// driver_cuda.h: NVIDIA's runtime as src/device/cuda/runtime_cuda.cpp calls it, of devices that do nothing: it counts,
// and remembers what a driver would. Threads: any; set while nothing is called.
#pragma once

#include <cuda_runtime_api.h>

#include <set>
#include <vector>

namespace windlass::driver {

struct Attribute {
    int device = 0;
    const void* kernel = nullptr;
    int value = 0;
    bool operator==(const Attribute&) const = default;
};

struct Driver {
    int devices = 2;
    cudaError_t of_kernel = cudaSuccess;  // what cudaFuncGetAttributes returns
    std::set<int> contexts;               // devices that a call used
    int allocations = 0, launches = 0;
    std::vector<Attribute> shared_bytes;  // asked for, in order
};
// Begins again with `wanted`.
void set_driver(const Driver& wanted);
Driver driver();

}  // namespace windlass::driver
