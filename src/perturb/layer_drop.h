// layer_drop.h: layers that a step neither probes nor updates.
//
// LeZO: Wang et al., "Simultaneous computation and memory efficient zeroth-order optimizer for fine-tuning large
// language models" (arXiv 2410.09823). Which layers follows from seed, step and layer alone, so a step in memory, one
// that is streamed and one that is rebuilt from a log leave out the same ones.
#pragma once

#include <cstdint>

namespace windlass {

// `layer`: ParamSpec::layer; what belongs to none (-1) is never left out. `share` in [0, 1): each layer is left out
// with this probability, whatever becomes of the others.
bool is_layer_dropped(uint64_t seed, int64_t step, int layer, double share);

}  // namespace windlass
