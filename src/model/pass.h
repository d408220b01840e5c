// pass.h: forward, backward and tangent segments derived from a Program: no family and no method writes a backward.
//
// What backward needs of forward follows from the ops' records (saved.h). A value that is kept lies in one of the
// `saved` regions, at the same offset for both directions. For those that are not, backward starts by running again
// the forward calls that it needs, into its own work region: from what was kept and the block's input, and no further
// than the last value that a backward kernel reads.
#pragma once

#include "model/saved.h"
#include "model/segment.h"
#include "model/spec.h"

namespace windlass {

struct PassOptions {
    OpSize size;
    bool save = true;                // forward: keep values for backward;  backward: they were kept (else recompute)
    bool want_grad_input = true;     // backward: false for the first block that trains anything
    std::vector<uint8_t> trainable;  // by the program's weights; empty means all
    // Value by value, by saved_values of the same `trainable`; both directions must be given the same. Empty: as
    // `save` says, for every value that could be read whatever is trainable.
    std::vector<SaveChoice> choices;
};

Segment forward_pass(std::shared_ptr<const Program> program, const PassOptions& options);
Segment backward_pass(std::shared_ptr<const Program> program, const PassOptions& options);
// Forward together with options.size.k tangents.
Segment tangent_pass(std::shared_ptr<const Program> program, const PassOptions& options);

// A program whose loss computes its own gradient (cross_entropy) needs no forward in a training pass: its backward
// writes the output too.
bool reverse_computes_output(const Program& program);

}  // namespace windlass
