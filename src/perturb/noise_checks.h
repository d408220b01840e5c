// noise_checks.h: what calls of the records may ask, whatever the device. What contradicts itself is a bug.
#pragma once

#include "perturb/noise_kernel.h"

namespace windlass {

// Whether a term is of low rank and its factors are not given.
bool is_drawn(const NoiseRun& run, const NoiseTerm& term);
// Whether the terms of a pass are: all or none.
bool is_drawn(const NoiseRun& run, const NoisePass& pass);

void check_call(const NoiseRun& run, const NoisePass& pass);

}  // namespace windlass
