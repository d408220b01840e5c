#include "method/projector/loops.h"

#include "device/cpu/isa.h"

namespace windlass {

const PanelLoops& panel_loops() {
    static constexpr IsaKernel<const PanelLoops> kLoops = {&baseline::kPanelLoops, &avx2::kPanelLoops,
                                                           &avx512::kPanelLoops};
    return *kLoops.pick();
}

}  // namespace windlass
