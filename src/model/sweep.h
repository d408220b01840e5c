// sweep.h: forward, reverse and tangent segments derived from a Program: no family and no method writes a backward.
//
// What reverse needs of forward follows from the ops' records. A value that is kept lies in the `saved` region, at
// the same offset for both directions; with recompute nothing is kept and reverse starts by running the forward
// calls that it needs again, into its own work region.
#pragma once

#include "model/segment.h"
#include "model/spec.h"

namespace windlass {

struct SweepOptions {
    OpSize size;
    bool save = true;                // forward: keep values for reverse;  reverse: they were kept (else recompute)
    bool want_grad_input = true;     // reverse: false for the first block that trains anything
    std::vector<uint8_t> trainable;  // reverse: by the program's weights; empty means all
};

Segment sweep_forward(std::shared_ptr<const Program> program, const SweepOptions& options);
Segment sweep_reverse(std::shared_ptr<const Program> program, const SweepOptions& options);
// Forward together with options.size.k tangents.
Segment sweep_tangent(std::shared_ptr<const Program> program, const SweepOptions& options);

// A program whose loss computes its own gradient (cross_entropy) needs no forward in a training sweep: its reverse
// writes the output too.
bool reverse_computes_output(const Program& program);

}  // namespace windlass
