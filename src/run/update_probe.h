// update_probe.h: the update of one parameter, with weights, state and gradient of its own, to be called again and
// again: for probes.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "method/recipe.h"

namespace windlass {

// Moments begin at zero; weights and gradients are random. Memory is taken in the constructor.
class UpdateProbe {
  public:
    // Of a matrix [side, side], one chunk or less, in bf16 or with the halves of masters; on a stream of the device.
    UpdateProbe(const Recipe& recipe, int64_t side, Device& device, Stream& stream);
    void operator()();
    int64_t bytes() const;  // read plus written by a call

  private:
    Memory& allocate(int64_t bytes);

    const Recipe& recipe_;
    const ParamKernel& kernel_;
    Device& device_;
    Stream& stream_;
    LoneParam param_;
    StepParams step_;
    std::vector<std::unique_ptr<Memory>> memories_;
    Memory *weights_ = nullptr, *gradient_ = nullptr, *work_ = nullptr;
    std::vector<Memory*> state_;
};

}  // namespace windlass
