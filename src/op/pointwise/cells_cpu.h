// cells_cpu.h: the CPU cells of an op that works number by number.
#pragma once

#include "op/loops_cpu.h"
#include "op/pointwise/traits.h"

namespace windlass {

const PointwiseLoops& pointwise_loops(Pointwise formula);

template <typename Traits>
struct PointwiseCpu {
    static const PointwiseLoops& loops(const OpCall& call) { return pointwise_loops(Traits::formula(*call.spec)); }
    static void forward(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_forward(loops(call).forward, view.call(), stream);
    }
    static void backward(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_backward(loops(call).backward, read_by_backward<Traits>(view.call()), view.call(), stream);
    }
    static void tangent(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_tangent(loops(call).tangent, read_by_tangent<Traits>(view.call()), view.call(), stream);
    }
    static constexpr OpKernels kKernels{.forward = forward, .vjp = backward, .jvp = tangent};
};

}  // namespace windlass
