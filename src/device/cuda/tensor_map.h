// tensor_map.h: what the copy engine of compute capability 9.0 moves to shared memory: boxes of one head of a matrix of
// bf16 per row of a batch. Plain types: sources that nvcc reads include it.
#pragma once

#include <cstdint>

namespace windlass {

// Opaque, as the driver makes it (CudaRuntime::tensor_map); a kernel's argument holds it.
struct alignas(64) TensorMap {
    unsigned char bytes[128];
};

inline constexpr int kBoxColumns = 64;  // of a box: 128 bytes

// Numbers [rows, tokens, heads, columns]: a box has kBoxColumns columns of one head, of box_tokens tokens of one row.
// Zeros are after the last column of a head, and after the last token of a row. Strides are multiples of 8 numbers, and
// the first number is 16-byte aligned.
struct TensorBoxes {
    const void* data = nullptr;
    int64_t columns = 0, heads = 0, tokens = 0, rows = 0;
    int64_t head_stride = 0, token_stride = 0, row_stride = 0;  // numbers
    int box_tokens = 0;
};

// Where a box begins.
struct BoxPlace {
    int column = 0, head = 0, token = 0, row = 0;
};

}  // namespace windlass
