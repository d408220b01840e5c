// swiglu_halves.h: a call of swiglu as one of two inputs, gate and up, also where they come packed side by side.
#pragma once

#include <array>

#include "op/ops.h"

namespace windlass {

class SwigluHalves {
  public:
    explicit SwigluHalves(const OpCall& call) : call_(call) {
        if (!call.spec->get<SwigluAttrs>().packed) return;
        call_.in = split(call.in, in_);
        call_.grad_in = split(call.grad_in, grad_in_);
        call_.tangent_in = split(call.tangent_in, tangent_in_);
        if (call.add_to_grad_in.empty()) return;
        adds_ = {call.add_to_grad_in[0], call.add_to_grad_in[0]};
        call_.add_to_grad_in = adds_;
    }
    SwigluHalves(const SwigluHalves&) = delete;
    SwigluHalves& operator=(const SwigluHalves&) = delete;

    const OpCall& call() const { return call_; }

  private:
    using Pair = std::array<Tensor, 2>;

    // What is not there or not wanted stays empty.
    static std::span<const Tensor> split(std::span<const Tensor> values, Pair& halves) {
        if (values.empty()) return values;
        const Tensor& both = values[0];
        if (!both.empty()) {
            const int64_t cols = both.cols() / 2;
            halves = {both.slice_cols(0, cols), both.slice_cols(cols, cols)};
        }
        return halves;
    }

    OpCall call_;
    Pair in_, grad_in_, tangent_in_;
    std::array<uint8_t, 2> adds_{};
};

}  // namespace windlass
