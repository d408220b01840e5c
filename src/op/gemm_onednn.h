// gemm_onednn.h: one matrix product by oneDNN on the calling thread; for the .cpp files of this floor.
#pragma once

#include "op/gemm.h"

namespace windlass {

// C = A B + bias, or C += A B + bias, where oneDNN has such a product on this CPU: f32, and bf16 where the CPU
// multiplies bf16 (onednn_has). Sums over K in f32. Primitives are kept per thread, by shape.
void onednn_matmul(const GemmArgs& args);
bool onednn_has(DType dtype);

}  // namespace windlass
