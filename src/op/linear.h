// linear.h: the kernels of kLinear (ops.h) on the CPU, and the matrix of a weight as products want it.
#pragma once

#include "op/loops_cpu.h"
#include "op/op.h"

namespace windlass {

void linear_forward_cpu(const OpCall& call, Stream& stream);
void linear_together_cpu(std::span<const OpCall> calls, Stream& stream);
void linear_backward_cpu(const OpCall& call, Stream& stream);
void linear_tangent_cpu(const OpCall& call, Stream& stream);

// A weight matrix in the type of the computation: as it lies in memory, or written to scratch where the halves of
// split masters must be joined.
Tensor read_matrix(const Weight& weight, const OpSize& size, Scratch& scratch, Team& team);
int64_t read_matrix_bytes(const Shape& shape, const OpSize& size);

// Whether forward takes the kernel of one row (gemv.h): where there is one token, as in decoding. A batch that trains
// or is evaluated has more.
bool is_gemv(const OpSize& size);

void write_zeros(const Tensor& value, Team& team);

// The rows of direction j of a weight, [rows, cols] or [cols].
Tensor direction_of(const Weight& weight, int j);

}  // namespace windlass
