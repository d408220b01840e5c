// lsp_schedule.h: a step of 7 billion parameters with the paper's costs of a layer, by our simulator and our planner.
#pragma once

#include <string>

#include "papers/lsp_pipeline.h"

namespace windlass {

struct PlannedStep {
    double seconds = 0;
    std::string words;  // what the plan does
};

class LayerWise {
  public:
    // Gradients go down in bf16; nothing is clipped, so that nothing is kept for a wrong guess.
    explicit LayerWise(const LayerCosts& costs);

    // Updates behind backward. `waits`: weights go up behind the last of them, as ZeRO-Offload's do.
    double behind_backward(bool waits) const;
    // Updates as gradients arrive, of so many eighths of the layers in the next forward pass.
    double on_arrival(int deferred) const;
    // The best that the planner finds where the host updates everything, and where states may visit the device.
    PlannedStep planned(bool visits) const;

  private:
    LayerCosts costs_;
};

}  // namespace windlass
