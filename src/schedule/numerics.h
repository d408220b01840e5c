// numerics.h: what the bits are. Fixed before planning, written to run.yaml and to every checkpoint.
//
// Two runs with equal Numerics give equal losses, weights and states, wherever things live.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "method/gradient_format.h"
#include "method/state_format.h"
#include "tensor/dtype.h"

namespace windlass {

struct Numerics {
    DType compute = DType::bf16;
    int64_t micro_batch_size = 1;           // rows of a micro-batch
    int64_t micro_batches = 1;              // micro-batches of an optimizer step
    std::vector<int64_t> sequence_lengths;  // at most four buckets, rising; a step is padded to the first that holds it
    std::string kernel_path;                // instruction set of the kernels, e.g. "avx512_bf16"
    StateFormat state_format = StateFormat::fp32;
    GradientFormat gradient_format = GradientFormat::f32;

    bool operator==(const Numerics&) const = default;
};

inline constexpr int64_t kChunkElements = int64_t{1} << 22;  // an update moves this many elements of one parameter

}  // namespace windlass
