// moments.h: the moments of a chunk as f32 and back, by StateFormat: what reads and writes them besides updates. Rarely
// called, so it is plain.
#pragma once

#include <array>

#include "method/recipe.h"

namespace windlass {

extern const std::array<Moments, 3> kAdamwMoments;

}  // namespace windlass
