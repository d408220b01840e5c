// pointwise.h: the ops that work number by number: their formulas' names, and their cells on each device.
//
// What they compute is in formulas.h; the records are one file an op.
#pragma once

#include "op/loops.h"

namespace windlass {

// In the order of AllFormulas.
enum class Pointwise : uint8_t { add, relu, tanh, gelu_exact, gelu_tanh, silu_gate, gelu_gate };
inline constexpr int kPointwiseCount = 7;

struct PointwiseTable {
    PointwiseLoops of[kPointwiseCount];
};

namespace baseline {
extern const PointwiseTable kPointwise;
}
namespace avx2 {
extern const PointwiseTable kPointwise;
}
namespace avx512 {
extern const PointwiseTable kPointwise;
}

}  // namespace windlass
