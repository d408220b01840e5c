#include <algorithm>

#include "method/methods.h"

namespace windlass {
namespace {

// LSP-Offload (Chen et al. 2024): each matrix's gradient is projected to d x d by learned sparse projectors, Adam
// runs on the projection, and its decompressed step is applied to the matrix.
constexpr int64_t kSubspaceMax = 512;

int64_t projected(const ParamSpec& param) {
    if (param.shape.rank() < 2) return param.numel();
    const int64_t rows = std::min(param.shape[0], kSubspaceMax);
    const int64_t cols = std::min(param.shape[1], kSubspaceMax);
    return rows * cols;
}

Recipe recipe(const MethodOptions&) {
    return {.name = "lsp",
            .store = StoreType::split,
            .sweeps = {{SweepKind::forward}, {SweepKind::reverse}},
            .state = {{"m", 4, 1, projected}, {"v", 4, 1, projected}},
            .on_gradient = GradientRule::project};
}

}  // namespace

const Method kLsp = {"lsp", recipe};

}  // namespace windlass
