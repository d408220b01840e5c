// The list of ops.
#include "op/ops.h"

namespace windlass {

std::span<const OpRecord* const> all_ops() {
    static constexpr std::array kOps = {&kEmbedding, &kLinear, &kRmsNorm,      &kLayerNorm, &kRope,  &kAttention,
                                        &kSwiglu,    &kGelu,   &kRelu,         &kAdd,       &kScale, &kMagnitude,
                                        &kSparse,    &kTanh,   &kCrossEntropy, &kPreference};
    return kOps;
}

}  // namespace windlass
