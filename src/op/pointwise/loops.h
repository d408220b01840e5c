// loops.h: the inner loops of ops that work number by number, by formula.
#pragma once

#include "op/loops.h"
#include "op/pointwise/formulas.h"

namespace windlass {

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
