#include "method/methods.h"

namespace windlass {
namespace {

// MeZO's two-point estimate (Malladi et al. 2023, algorithm 1): two forward sweeps with weights probed on arrival at
// +eps z and -eps z; the update, a scalar times regenerated noise, is applied when a block next arrives (ZO2).
Recipe recipe(const MethodOptions&) {
    return {.name = "zeroth_order",
            .store = StoreType::as_file,
            .sweeps = {{SweepKind::forward, 1, true}, {SweepKind::forward, 1, true}},
            .on_arrival = ArrivalRule::apply_pending};
}

}  // namespace

const Method kZerothOrder = {"zeroth_order", recipe};

}  // namespace windlass
