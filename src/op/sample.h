// sample.h: calls that are measured in place of larger ones, which run at the same rate.
#pragma once

#include "op/op.h"

namespace windlass {

// The number of tokens, or a smaller one that is as fast: a power of two.
int64_t power_of_two_below(int64_t tokens);

// Beyond which more is as fast: where the CPU cuts matrices into panels, and where a card is full.
struct SampleLimits {
    int64_t side;    // of a matrix
    int64_t tokens;  // of a call
    int64_t row;     // tokens of a row, of attention
};
SampleLimits sample_limits(DeviceKind device);

// The size that a sample begins with: what decides a rate, without tokens.
OpSize sample_size(const OpSize& size);

// Of ops that go over rows: all columns, some of the tokens.
OpSample sample_rows(const OpSpec& spec, const OpSize& size);

// Of a product with one matrix, and perhaps a bias: at most so much of it that is cut into panels anyway. `in_axis`:
// the matrix's axis that the input's columns run along.
OpSample sample_product(const OpSpec& spec, const OpSize& size, int in_axis);

}  // namespace windlass
