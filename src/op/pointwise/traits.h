// traits.h: which formula a call of a pointwise op has, and what its backward reads.
#pragma once

#include "op/ops.h"
#include "op/pointwise/pointwise.h"
#include "op/pointwise/swiglu_halves.h"

namespace windlass {

// A call as it is.
class WholeCall {
  public:
    explicit WholeCall(const OpCall& call) : call_(call) {}
    const OpCall& call() const { return call_; }

  private:
    const OpCall& call_;
};

struct AddTraits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{};
    static Pointwise formula(const OpSpec&) { return Pointwise::add; }
};

struct ReluTraits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.out = true};
    static Pointwise formula(const OpSpec&) { return Pointwise::relu; }
};

struct TanhTraits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.out = true};
    static Pointwise formula(const OpSpec&) { return Pointwise::tanh; }
};

struct GeluTraits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.in = true};
    static Pointwise formula(const OpSpec& spec) {
        const bool is_exact = spec.get<GeluAttrs>().kind == GeluAttrs::Kind::exact;
        return is_exact ? Pointwise::gelu_exact : Pointwise::gelu_tanh;
    }
};

struct SwigluTraits {
    using View = SwigluHalves;
    static constexpr BackwardReads kReads{.in = true};
    static Pointwise formula(const OpSpec& spec) {
        const bool is_silu = spec.get<SwigluAttrs>().kind == SwigluAttrs::Kind::silu;
        return is_silu ? Pointwise::silu_gate : Pointwise::gelu_gate;
    }
};

// The values that backward reads, and of an op that is not linear those that tangents do.
template <typename Traits>
std::span<const Tensor> read_by_backward(const OpCall& call) {
    return Traits::kReads.in ? call.in : Traits::kReads.out ? call.out : std::span<const Tensor>();
}
template <typename Traits>
std::span<const Tensor> read_by_tangent(const OpCall& call) {
    return Traits::kReads.in || Traits::kReads.out ? call.in : std::span<const Tensor>();
}

}  // namespace windlass
