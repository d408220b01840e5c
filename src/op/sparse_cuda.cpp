#include "op/sparse_cuda.h"

#include "op/cells_cuda.h"
#include "op/cuda_kernels.h"
#include "op/ops.h"

namespace windlass {
namespace sparse_cells {

bool projects(const OpCall& call) {
    return call.spec->get<SparseAttrs>().direction == SparseAttrs::Direction::project;
}

void multiply(const OpCall& call, bool project, const Tensor& from, const CudaValue& to, int64_t rows, Stream& stream) {
    const SparseShape& shape = call.spec->get<SparseAttrs>().positions->shape;
    const SparseArgs args{.x = cuda_value(from),
                          .y = to,
                          .values = cuda_weight(call.weights[0], *call.size),
                          .rows = rows,
                          .matrix_rows = shape.rows,
                          .matrix_cols = shape.cols,
                          .nonzeros = shape.nonzeros,
                          .seed = shape.seed};
    (project ? launch_sparse_project : launch_sparse_expand)(computes_bf16(call), args, cuda_handle(stream));
}

void forward(const OpCall& call, Stream& stream) {
    multiply(call, projects(call), call.in[0], cuda_value(call.out[0]), call.out[0].rows(), stream);
}

void backward(const OpCall& call, Stream& stream) {
    WINDLASS_CHECK(call.sinks.empty() || !call.sinks[0].wanted(), "the numbers of a sparse matrix have no gradient");
    if (call.grad_in[0].empty()) return;
    multiply(call, !projects(call), call.grad_out[0], cuda_gradient(call, 0), call.grad_in[0].rows(), stream);
}

void tangent(const OpCall& call, Stream& stream) {
    WINDLASS_CHECK(call.weights[0].direction.empty() && call.weights[0].left.empty(),
                   "the numbers of a sparse matrix do not move");
    multiply(call, projects(call), call.tangent_in[0], cuda_value(call.tangent_out[0]), call.tangent_out[0].rows(),
             stream);
}

}  // namespace sparse_cells

constinit const OpKernels kSparseCuda{
    .forward = sparse_cells::forward, .vjp = sparse_cells::backward, .jvp = sparse_cells::tangent};

}  // namespace windlass
