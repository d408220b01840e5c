// saved.h: the values of forward that backward reads, each kept in one of three regions or computed again. The runner
// of the segments decides where a region is, and whether it stays there meanwhile.
//
// A saved value is one that a backward kernel reads: a value of the program or a private output of an op (attention's
// log-sum-exp). The block's input is none of them: backward always has it. Whatever is chosen for each, gradients are
// the same bits: a value that is computed again comes from the same kernels, given the same values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/segment.h"

namespace windlass {

enum class SaveChoice : uint8_t {
    keep,         // Region::saved
    keep_second,  // Region::saved_second
    keep_third,   // Region::saved_third
    recompute,    // nowhere: backward runs the forward calls that make it
};

struct SavedValue {
    std::string name;
    int64_t bytes = 0;  // what it takes in its region: a multiple of kSlotAlignment
    // Of computing it again while all others are kept. Values share the calls that make them: several together may cost
    // less than their sum.
    double recompute_flops = 0;
    int64_t recompute_bytes = 0;
};

// The values that backward reads, which therefore need a SaveChoice, in program order; `trainable` by the program's
// weights, empty for all. The list is the same for forward and backward, and does not depend on whether the input's
// gradient is needed. Of a block whose backward computes its output (pass.h) training runs no forward that could keep
// anything.
std::vector<SavedValue> saved_values(const Program& program, const OpSize& size, const std::vector<uint8_t>& trainable);

// ---- what the pass asks ----

// Values whose gradient is needed.
std::vector<bool> values_with_gradient(const Program& program, const std::vector<uint8_t>& trainable,
                                       bool want_grad_input);
// Whether a node's backward kernel reads the node's inputs.
bool backward_reads_in(const Node& node, const std::vector<uint8_t>& trainable);
// Values of forward that backward reads to get these gradients.
std::vector<bool> values_backward_reads(const Program& program, const std::vector<uint8_t>& trainable,
                                        const std::vector<bool>& with_gradient);
// Where each value of the program is kept; Region::none: nowhere.
std::vector<Region> regions_of_saved(const Program& program, const std::vector<uint8_t>& trainable,
                                     const std::vector<SaveChoice>& choices);
// The same for all that could ever be read, one choice for all of it.
std::vector<Region> regions_of_saved(const Program& program, SaveChoice choice);
// Nodes that must run forward again so that the values in `read` exist, where those with a region do. A call whose
// values are never read is not among them, such as the last projection of a block.
std::vector<bool> nodes_to_run_again(const Program& program, std::vector<bool> read,
                                     const std::vector<Region>& regions);

}  // namespace windlass
