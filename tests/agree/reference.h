// reference.h: every op once more, as its formula says, naive and in double precision.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "op/op.h"

namespace windlass::agree {

struct Matrix {
    int64_t rows = 0;
    int64_t cols = 0;
    std::vector<double> numbers;  // row-major

    Matrix() = default;
    Matrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), numbers(static_cast<size_t>(rows * cols)) {}
    double& at(int64_t row, int64_t col) { return numbers[static_cast<size_t>(row * cols + col)]; }
    double at(int64_t row, int64_t col) const { return numbers[static_cast<size_t>(row * cols + col)]; }
};

struct Problem {
    const OpSpec* spec = nullptr;
    const Batch* batch = nullptr;
    std::vector<Matrix> in;       // [T, C]
    std::vector<Matrix> weights;  // vectors as [1, C]
    DType compute = DType::f32;
};

// The op's output, [T, C].
Matrix reference(std::string_view op, const Problem& problem);

Matrix reference_embedding(const Problem& problem);
Matrix reference_rms_norm(const Problem& problem);
Matrix reference_layer_norm(const Problem& problem);
Matrix reference_rope(const Problem& problem);
Matrix reference_swiglu(const Problem& problem);
Matrix reference_gelu(const Problem& problem);
Matrix reference_relu(const Problem& problem);
Matrix reference_tanh(const Problem& problem);
Matrix reference_add(const Problem& problem);
Matrix reference_scale(const Problem& problem);
Matrix reference_magnitude(const Problem& problem);
Matrix reference_sparse(const Problem& problem);
Matrix reference_linear(const Problem& problem);
Matrix reference_attention(const Problem& problem);
Matrix reference_cross_entropy(const Problem& problem);
Matrix reference_preference(const Problem& problem);

}  // namespace windlass::agree
