// sweep.h: forward, reverse and tangent segments derived from a Program: no family and no method writes a backward.
//
// What reverse needs of forward follows from the ops' records (saved.h). A value that is kept lies in one of the
// `saved` regions, at the same offset for both directions. For those that are not, reverse starts by running again
// the forward calls that it needs, into its own work region: from what was kept and the block's input, and no further
// than the last value that a backward kernel reads.
#pragma once

#include "model/saved.h"
#include "model/segment.h"
#include "model/spec.h"

namespace windlass {

struct SweepOptions {
    OpSize size;
    bool save = true;                // forward: keep values for reverse;  reverse: they were kept (else recompute)
    bool want_grad_input = true;     // reverse: false for the first block that trains anything
    std::vector<uint8_t> trainable;  // by the program's weights; empty means all
    // Value by value, by saved_values of the same `trainable`; both directions must be given the same. Empty: as
    // `save` says, for every value that could be read whatever is trainable.
    std::vector<SaveChoice> choices;
};

Segment sweep_forward(std::shared_ptr<const Program> program, const SweepOptions& options);
Segment sweep_reverse(std::shared_ptr<const Program> program, const SweepOptions& options);
// Forward together with options.size.k tangents.
Segment sweep_tangent(std::shared_ptr<const Program> program, const SweepOptions& options);

// A program whose loss computes its own gradient (cross_entropy) needs no forward in a training sweep: its reverse
// writes the output too.
bool reverse_computes_output(const Program& program);

}  // namespace windlass
