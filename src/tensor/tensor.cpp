#include "tensor/tensor.h"

#include <fmt/ranges.h>

namespace windlass {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    WINDLASS_CHECK(dims.size() <= kRankMax, "a shape of {} dimensions; at most {}", dims.size(), kRankMax);
    for (size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
}

int64_t Shape::numel() const {
    int64_t count = 1;
    for (const int64_t dim : dims()) count *= dim;
    return count;
}

std::string Shape::to_string() const {
    return fmt::format("[{}]", fmt::join(dims(), ", "));
}

Tensor::Tensor(DType dtype, Shape shape, void* data) : dtype(dtype), shape(shape), data(data) {
    row_stride = shape.rank() == 0 || shape[0] == 0 ? 1 : shape.numel() / shape[0];
}

Tensor Tensor::slice_rows(int64_t begin, int64_t count) const {
    WINDLASS_CHECK(shape.rank() == 2 && begin >= 0 && begin + count <= rows(), "rows {}+{} of {}", begin, count,
                   shape.to_string());
    return {dtype, {count, shape[1]}, row_stride, as<std::byte>() + begin * row_stride * dtype_bytes(dtype)};
}

Tensor Tensor::slice_cols(int64_t begin, int64_t count) const {
    WINDLASS_CHECK(shape.rank() == 2 && begin >= 0 && begin + count <= shape[1], "columns {}+{} of {}", begin, count,
                   shape.to_string());
    return {dtype, {rows(), count}, row_stride, as<std::byte>() + begin * dtype_bytes(dtype)};
}

}  // namespace windlass
