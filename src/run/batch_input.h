// batch_input.h: the vectors of a batch in the memory of the device that reads them.
#pragma once

#include <cstddef>

#include "op/batch.h"
#include "tier/copy_mover.h"

namespace windlass {

// Copies them to `to`, kInputBytesPerToken for each token.
void put_batch(const Batch& batch, std::byte* to, CopyMover& mover, Stream& stream);
// The batch as kernels find it there.
Batch batch_at(const Batch& batch, std::byte* there);

}  // namespace windlass
