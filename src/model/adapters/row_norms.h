// row_norms.h: norms of the numbers of each output of a linear layer: of rows of W, or of columns if W is [in, out].
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/adapters/adapter.h"

namespace windlass {

// Puts elements [first, first + out.size()) of a weight into out.
using ReadWeight = std::function<void(int64_t first, std::span<float> out)>;

// The output that an element of the layer's weight belongs to.
int64_t output_of(const LinearLayer& layer, int64_t element);

// The norms of outputs [first, first + count), summed in f64. `read` is asked for pieces that begin with a block of 64,
// and end with one or with the weight, as types of few bits need; memory stays below a MiB and the norms, whatever the
// weight.
std::vector<double> row_norms(const LinearLayer& layer, int64_t first, int64_t count, const ReadWeight& read);

}  // namespace windlass
