// machine.h: what a machine can do, as rates; probed once, stored, editable, so that one can plan for another.
#pragma once

#include <cstdint>
#include <string>

#include "tensor/dtype.h"

namespace windlass {

struct Machine {
    std::string name;
    int threads = 1;
    int64_t memory_bytes = 0;    // installed
    double gemm_bf16_flops = 0;  // per second, all threads, large products
    double gemm_f32_flops = 0;
    double memory_bytes_per_s = 0;     // copy: read plus written
    double disk_read_bytes_per_s = 0;  // 2 MiB requests, several in flight
    double disk_write_bytes_per_s = 0;

    double gemm_flops(DType compute) const { return compute == DType::bf16 ? gemm_bf16_flops : gemm_f32_flops; }
};

}  // namespace windlass
