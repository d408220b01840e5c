// gguf_rope.h: how a decoder's layers turn queries and keys, in llama.cpp's fields and tensors.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/families/decoder.h"
#include "model/gguf.h"

namespace windlass {

// What llama.cpp's code for an architecture knows of rope. Plain, linear and yarn it knows in all.
struct GgufRope {
    bool factors = false;  // one for each pair: "rope_freqs.weight", "rope_factors_long.weight" and "..._short.weight"
    bool local = false;    // layers with a window have a rope of their own, which nothing stretches
    int64_t still_step = 0;  // n: every n-th layer does not turn; 0: all turn
};

// Adds the fields and tensors. UserError(model) naming `where` and what the architecture does not know.
void add_gguf_rope(const DecoderSpec& spec, const GgufRope& known, std::string_view where, GgufModel& out);

}  // namespace windlass
