// gemm_cuda.h: products on a CUDA device: C = A B, or C += A B, as GemmArgs has them (gemm.h).
//
// By cuBLASLt (cublaslt_cuda.cpp), which finds the algorithm by shape alone and splits nothing along K: bits depend on
// the shape, the library's version and the card, and on no placement.
#pragma once

#include <span>
#include <string>

#include "op/gemm.h"

namespace windlass {

class Stream;

// "cublasLt 13.1.0". Throws UserError(gpu) without the library.
std::string product_path_cuda();

// The bias has the type of c. Matrices begin at multiples of 16 bytes, or of their rows' where those are odd.
void gemm_cuda(const GemmArgs& args, std::span<std::byte> workspace, Stream& stream);

// Of a product of `multiply_adds`.
constexpr int64_t gemm_workspace_bytes(double multiply_adds) {
    return multiply_adds < 0x1p24 ? 0 : int64_t{32} << 20;
}

}  // namespace windlass
