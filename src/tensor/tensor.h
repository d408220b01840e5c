// tensor.h: Shape and Tensor, a non-owning view of numbers in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"
#include "tensor/dtype.h"

namespace windlass {

// Up to kRankMax dimensions, outermost first; rank 0 is a scalar.
class Shape {
  public:
    static constexpr int kRankMax = 5;
    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
    explicit Shape(std::span<const int64_t> dims);
    int rank() const { return rank_; }
    int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
    int64_t numel() const;
    std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
    bool operator==(const Shape& other) const = default;
    std::string to_string() const;  // "[4096, 768]"

  private:
    std::array<int64_t, kRankMax> dims_{};
    int rank_ = 0;
};

// A view: rows of `shape[1]...` contiguous elements, `row_stride` elements apart. Never owns, is freely copied.
struct Tensor {
    DType dtype = DType::f32;
    Shape shape;
    int64_t row_stride = 0;  // in elements; equals the row's length when contiguous
    void* data = nullptr;

    Tensor() = default;
    Tensor(DType dtype, Shape shape, void* data);
    Tensor(DType dtype, Shape shape, int64_t row_stride, void* data)
        : dtype(dtype), shape(shape), row_stride(row_stride), data(data) {}

    bool empty() const { return data == nullptr; }
    int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
    int64_t cols() const { return shape.rank() < 2 ? 1 : shape.numel() / shape[0]; }  // elements of one row
    int64_t numel() const { return shape.numel(); }
    bool contiguous() const { return rows() == 1 || row_stride == cols(); }
    int64_t bytes() const { return numel() * dtype_bytes(dtype); }  // of the elements, without gaps

    template <typename T>
    T* as() const {
        return static_cast<T*>(data);
    }
    // Rows [begin, begin + count) as a view.
    Tensor slice_rows(int64_t begin, int64_t count) const;
    // Columns [begin, begin + count) of a matrix as a view.
    Tensor slice_cols(int64_t begin, int64_t count) const;
};

}  // namespace windlass
