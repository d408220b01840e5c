#include "op/pointwise/cells.h"

namespace windlass {

const PointwiseLoops& pointwise_loops(Pointwise formula) {
    constexpr IsaKernel<const PointwiseTable> kTables{&baseline::kPointwise, &avx2::kPointwise, &avx512::kPointwise};
    return kTables.pick()->of[static_cast<size_t>(formula)];
}

}  // namespace windlass
