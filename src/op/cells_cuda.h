// cells_cuda.h: from a call's tensors to what kernels take.
#pragma once

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "op/op.h"
#include "op/sums_cuda.h"
#include "op/values_cuda.h"

namespace windlass {

inline CudaValue cuda_value(const Tensor& tensor) {
    return {tensor.data, tensor.row_stride};
}

// The gradient of input i as backward is to leave it.
inline CudaValue cuda_gradient(const OpCall& call, size_t i) {
    return {call.grad_in[i].data, call.grad_in[i].row_stride, call.add_to_grad_in[i] != 0};
}

inline CudaWeight cuda_weight(const Weight& weight, const OpSize& size) {
    const Tensor& base = weight.base;
    WINDLASS_CHECK(base.dtype == DType::f32 || base.dtype == DType::bf16, "a weight of type {}",
                   dtype_name(base.dtype));
    const bool joins = size.compute == DType::f32 && !weight.low.empty();
    return {base.data, joins ? weight.low.as<int16_t>() : nullptr, base.dtype == DType::bf16};
}

// The k tangents of a weight of one row, in the type of the computation; null: zeros.
inline const void* cuda_direction(const Weight& weight) {
    return weight.direction.data;
}

inline bool computes_bf16(const OpCall& call) {
    return call.size->compute == DType::bf16;
}

inline CudaSum cuda_sum(const GradientSink& sink, float* partial) {
    return {sink.target.as<float>(), sink.first, partial};
}

inline float* scratch_floats(const OpCall& call) {
    return reinterpret_cast<float*>(call.scratch.data());
}

}  // namespace windlass
