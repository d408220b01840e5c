#include "method/methods.h"

namespace windlass {
namespace {

// LOMO (Lv et al. 2023): plain SGD fused into backward; a gradient is used up as soon as it exists.
Recipe recipe(const MethodOptions&) {
    return {.name = "lomo",
            .store = StoreType::split,
            .sweeps = {{SweepKind::forward}, {SweepKind::reverse}},
            .on_gradient = GradientRule::update};
}

}  // namespace

const Method kLomo = {"lomo", recipe};

}  // namespace windlass
