// gemm.h: C = A B, or C += A B, cut into output panels by shape alone.
//
// Each panel is one single-threaded library call (oneDNN) over the whole of K, so bits do not depend on the number
// of threads. bf16 x bf16 goes to oneDNN where the CPU has bf16 products; elsewhere panels are widened to f32.
// All matrices are row-major views; a transposed operand is given as stored, with its flag.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/cpu/team.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace windlass {

struct GemmArgs {
    Tensor a;  // [M, K], or stored [K, M] when transpose_a
    Tensor b;  // [K, N], or stored [N, K] when transpose_b
    Tensor c;  // [M, N]; a and b have one type; c has it too, or f32
    bool transpose_a = false;
    bool transpose_b = false;
    bool accumulate = false;  // C += A B, added in f32 before rounding to c's type
    Tensor bias;              // empty, or [N]: added to every row
};

void gemm(const GemmArgs& args, Team& team);

// The instruction set that oneDNN uses: that of the path the process began with (started_isa) or, of AMX and AVX-512,
// what the machine has of it. A part of numerics.
std::string_view product_path();
// The same where a device computes: of CUDA devices the library and its version.
std::string product_path(DeviceKind device);
// The library that multiplies on the CPU, in the version that was loaded: "oneDNN 3.7.2". Versions give different bits.
// Empty for CUDA devices, where product_path() names it.
std::string product_library(DeviceKind device = DeviceKind::cpu);

// One call on the calling thread, uncut: for kernels that cut their work themselves (attention).
void gemm_single(const GemmArgs& args);

}  // namespace windlass
