#include "perturb/layer_drop.h"

#include "base/rng.h"

namespace windlass {

bool is_layer_dropped(uint64_t seed, int64_t step, int layer, double share) {
    if (share <= 0 || layer < 0) return false;
    const auto words = philox(
        seed,
        {.block = static_cast<uint64_t>(layer), .stream = RandomStream::layers, .step = static_cast<uint32_t>(step)});
    return static_cast<double>(words[0]) * 0x1p-32 < share;
}

}  // namespace windlass
