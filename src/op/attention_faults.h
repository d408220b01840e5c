// attention_faults.h: what keeps a NaN of one token from rows that do not see it, in attention on the CPU.
//
// A tile holds rows that are not seen, of weight 0, and 0 times NaN is NaN. So infinities and NaNs of rows that not
// everybody sees are taken out of a product, and added where there is a weight for them. Products of finite numbers are
// the same calls as ever, with the same bits.
#pragma once

#include <span>

#include "op/attention.h"
#include "op/gemm.h"

namespace windlass {

// What all of these ranges have in common, where neither begins nor ends fall.
SeenRange seen_by_all(std::span<const SeenRange> ranges);

// gemm_single() of weights, in f32 to c, with rows of which `by_all` have a weight everywhere: args.a are the weights,
// args.b the rows. Takes memory of its own where another row holds an infinity or a NaN.
void mix_seen(const GemmArgs& args, SeenRange by_all);

}  // namespace windlass
