// ratel_schedule.h: Ratel's training step as a Schedule, so that simulate predicts it as it predicts ours.
#pragma once

#include "papers/ratel_model.h"
#include "schedule/simulate.h"

namespace windlass {

// One row of the paper: a model, rows of a batch, drives.
struct RatelStep {
    GptShape shape;
    int64_t batch = 1;
    DriveArray array;

    double tokens() const { return static_cast<double>(batch * shape.sequence_length); }
};

// What the rule of benefit keeps: the best values of all layers, then the next; the last kind in the last layers.
struct KeptSet {
    int count = 0;               // of (kind of value, layer)
    double bytes = 0;            // of the whole batch, without the layers' inputs
    double saved_seconds = 0;    // of recomputing
    double recompute_share = 1;  // of forward's products that backward does again
};

// The paper's cost model: the set with which forward's and backward's slowest resource take least.
KeptSet choose_kept(const RatelStep& step, const Machine& machine);

// Lanes: weights are read six layers ahead and go up two ahead; gradients and kept values go down; when backward has
// left a group of parameters its state is read, the host updates it, and the group before it is written: all of that in
// one lane of the disk. Waits are filled in; it runs no kernels and has no buffers.
Schedule ratel_schedule(const RatelStep& step, const KeptSet& kept, const Machine& machine);

struct RatelResult {
    KeptSet kept;
    Simulation simulation;
};
RatelResult simulate_ratel(const RatelStep& step, const Machine& machine);

}  // namespace windlass
