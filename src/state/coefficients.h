// coefficients.h: checksums of numbers that a run's bits depend on and that no kernel of ours computes.
#pragma once

#include "model/spec.h"
#include "state/identity.h"

namespace windlass {

// Of this model in this process. Rates, bias corrections, rope frequencies and log-sum-exps come from the C library,
// whose last bits another version, or another processor, may round otherwise: libm samples the functions that they are
// made with, whatever a run's settings are. Frequencies are summed themselves, so a changed config.json shows too.
Coefficients coefficients_of(const ModelSpec& model, DeviceKind device = DeviceKind::cpu);

}  // namespace windlass
