#include "op/cuda_kernels.h"
#include "op/pointwise/launches_cuda.h"
#include "op/pointwise/traits.h"

namespace windlass {
namespace pointwise_cells {

template <typename Traits>
struct PointwiseCuda {
    static const PointwiseLaunches& launches(const OpCall& call) {
        return pointwise_launches(Traits::formula(*call.spec));
    }
    static void forward(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_forward_cuda(launches(call).forward, view.call(), stream);
    }
    static void backward(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_backward_cuda(launches(call).backward, read_by_backward<Traits>(view.call()), view.call(), stream);
    }
    static void tangent(const OpCall& call, Stream& stream) {
        const typename Traits::View view(call);
        pointwise_tangent_cuda(launches(call).tangent, read_by_tangent<Traits>(view.call()), view.call(), stream);
    }
    static constexpr OpKernels kKernels{.forward = forward, .vjp = backward, .jvp = tangent};
};

}  // namespace pointwise_cells

constinit const OpKernels kAddCuda = pointwise_cells::PointwiseCuda<AddTraits>::kKernels;
constinit const OpKernels kReluCuda = pointwise_cells::PointwiseCuda<ReluTraits>::kKernels;
constinit const OpKernels kTanhCuda = pointwise_cells::PointwiseCuda<TanhTraits>::kKernels;
constinit const OpKernels kGeluCuda = pointwise_cells::PointwiseCuda<GeluTraits>::kKernels;
constinit const OpKernels kSwigluCuda = pointwise_cells::PointwiseCuda<SwigluTraits>::kKernels;

}  // namespace windlass
