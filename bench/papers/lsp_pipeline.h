// lsp_pipeline.h: a step of layers whose update is elsewhere, as four queues: the device, the link down, the host's
// update and the link up. For orders that no plan of ours has: what they would give.
//
// A layer's gradient is there when its backward is done; it goes down, is updated, and its weights come up before the
// next step's forward pass needs them. Stages take what is ready, one layer at a time, and never let go of it.
#pragma once

#include <vector>

namespace windlass {

// Seconds of one layer.
struct LayerCosts {
    double forward = 0, backward = 0, down = 0, host = 0, up = 0;
    int layers = 32;
};

// Which of the waiting layers is updated, and sent up, next: the one that came first; or, among those below `last_in`,
// which are before all others, the one that came last. Layers come from the last to the first, so among them that is
// the one that is due earliest: with all layers below it, the order is that of deadlines.
struct PipelineOrder {
    int last_in = 0;
};

// Seconds between two steps, once they are all alike.
double pipelined_step(const LayerCosts& costs, const PipelineOrder& order);

}  // namespace windlass
