// cells.h: the cells of an op that works number by number, on all devices.
//
// An op says which formula a call has, what its backward reads, and how its calls are seen:
//
//   struct Traits {
//       using View = WholeCall;
//       static constexpr BackwardReads kReads{.out = true};
//       static Pointwise formula(const OpSpec& spec);
//   };
#pragma once

#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/pointwise/launches_cuda.h"
#include "op/pointwise/loops.h"

namespace windlass {

const PointwiseLoops& pointwise_loops(Pointwise formula);

// A call as it is.
class WholeCall {
  public:
    explicit WholeCall(const OpCall& call) : call_(call) {}
    const OpCall& call() const { return call_; }

  private:
    const OpCall& call_;
};

template <typename Traits>
struct PointwiseCells {
    using View = typename Traits::View;

    static Pointwise formula(const OpCall& call) { return Traits::formula(*call.spec); }
    static std::span<const Tensor> read_by_backward(const OpCall& call) {
        return Traits::kReads.in ? call.in : Traits::kReads.out ? call.out : std::span<const Tensor>();
    }
    // A linear op has tangents that read no value.
    static std::span<const Tensor> read_by_tangent(const OpCall& call) {
        return Traits::kReads.in || Traits::kReads.out ? call.in : std::span<const Tensor>();
    }

    static void forward_cpu(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_forward(pointwise_loops(formula(call)).forward, view.call(), stream);
    }
    static void backward_cpu(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_backward(pointwise_loops(formula(call)).backward, read_by_backward(view.call()), view.call(), stream);
    }
    static void tangent_cpu(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_tangent(pointwise_loops(formula(call)).tangent, read_by_tangent(view.call()), view.call(), stream);
    }
    static void forward_cuda(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_forward_cuda(pointwise_launches(formula(call)).forward, view.call(), stream);
    }
    static void backward_cuda(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_backward_cuda(pointwise_launches(formula(call)).backward, read_by_backward(view.call()), view.call(),
                                stream);
    }
    static void tangent_cuda(const OpCall& call, Stream& stream) {
        const View view(call);
        pointwise_tangent_cuda(pointwise_launches(formula(call)).tangent, read_by_tangent(view.call()), view.call(),
                               stream);
    }

    static constexpr OpKernels kCpu{.forward = forward_cpu, .vjp = backward_cpu, .jvp = tangent_cpu};
    static constexpr OpKernels kCuda{.forward = forward_cuda, .vjp = backward_cuda, .jvp = tangent_cuda};
};

template <typename Traits>
constexpr std::array<OpCells, kDeviceKinds> pointwise_cells(Cost (*cost)(const OpSpec&, const OpSize&, DiffMode)) {
    using Cells = PointwiseCells<Traits>;
    return cells_of({.cost = cost, .kernels = &Cells::kCpu}, {.cost = cost, .kernels = &Cells::kCuda});
}

}  // namespace windlass
