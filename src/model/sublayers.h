// sublayers.h: the same model in smaller blocks: a layer's attention and its feed-forward apart.
//
// Streaming moves whole blocks and probes whole blocks, so half a block takes half the room. For passes that only go
// forward this costs nothing: between the parts goes one residual stream, which is in memory anyhow.
#pragma once

#include "model/spec.h"

namespace windlass {

// Cuts each layer where only one value is read later, so that each part has its own products; embedding and head stay
// as they are. The same ops in the same order on the same parameters: the same bits. Equal parts share a program.
ModelSpec in_sublayers(const ModelSpec& model);

}  // namespace windlass
