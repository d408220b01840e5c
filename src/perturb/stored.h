// stored.h: numbers of every type that weights are kept in, f8 and nf4 among them, as fp32, and fp32 so kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace windlass {

// What a run of weights is kept as. f8_e4m3: weights are the numbers that are kept, times 2^scale_exponent.
struct StoredType {
    DType dtype = DType::bf16;
    int scale_exponent = 0;
};

// Exact but for nf4, whose products are rounded. `bytes` begin with an element with which a block of the type begins;
// read are those from `first` on.
void decode_stored(StoredType type, std::span<const std::byte> bytes, int64_t first, std::span<float> out);
// bf16 and f16 as model/load.h says; f8_e4m3 to the nearest, ties to even, magnitudes beyond its largest number as that
// number; nf4 as tensor/nf4.h says, with scales that `files`, the type in the files, holds.
void encode_stored(StoredType type, DType files, std::span<const float> values, std::span<std::byte> out);

}  // namespace windlass
