#include "op/attention_faults.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "op/attention_tiles.h"

namespace windlass {
namespace {

float number_at(const Tensor& matrix, int64_t row, int64_t col) {
    const int64_t at = row * matrix.row_stride + col;
    if (matrix.dtype == DType::f32) return matrix.as<float>()[at];
    return std::bit_cast<float>(static_cast<uint32_t>(matrix.as<uint16_t>()[at]) << 16);
}

template <typename Number>
int64_t first_fault(const AttentionWeightLoops<Number>& loops, const Tensor& rows) {
    return loops.first_fault({rows.as<const Number>(), rows.rows(), rows.cols(), rows.row_stride});
}

// Adds the rows from `begin` to `end` that hold infinities or NaNs.
void find_faults(const Tensor& rows, int64_t begin, int64_t end, std::vector<int64_t>& found) {
    while (begin < end) {
        const Tensor rest = rows.slice_rows(begin, end - begin);
        begin += rest.dtype == DType::f32 ? first_fault(attention_loops().wide, rest)
                                          : first_fault(attention_loops().narrow, rest);
        if (begin < end) found.push_back(begin++);
    }
}

// Rows as far apart as the given ones, so that the same product takes them; zeros in place of infinities and NaNs.
std::unique_ptr<std::byte[]> copy_without_faults(const Tensor& rows, std::span<const int64_t> faults) {
    const auto number_bytes = static_cast<size_t>(dtype_bytes(rows.dtype));
    const auto row_bytes = static_cast<size_t>(rows.cols()) * number_bytes,
               stride = static_cast<size_t>(rows.row_stride) * number_bytes;
    const auto count = static_cast<size_t>(rows.rows());
    auto copy = std::make_unique_for_overwrite<std::byte[]>((count - 1) * stride + row_bytes);
    for (size_t row = 0; row < count; ++row)
        std::memcpy(copy.get() + row * stride, rows.as<std::byte>() + row * stride, row_bytes);
    for (const int64_t row : faults)
        for (int64_t col = 0; col < rows.cols(); ++col)
            if (!std::isfinite(number_at(rows, row, col)))
                std::memset(copy.get() + static_cast<size_t>(row) * stride + static_cast<size_t>(col) * number_bytes, 0,
                            number_bytes);
    return copy;
}

void add_faults(const GemmArgs& args, int64_t row) {
    for (int64_t i = 0; i < args.c.rows(); ++i) {
        const float weight = args.transpose_a ? number_at(args.a, row, i) : number_at(args.a, i, row);
        if (weight == 0) continue;
        for (int64_t col = 0; col < args.c.cols(); ++col) {
            const float number = number_at(args.b, row, col);
            if (!std::isfinite(number)) args.c.as<float>()[i * args.c.row_stride + col] += weight * number;
        }
    }
}

}  // namespace

SeenRange seen_by_all(std::span<const SeenRange> ranges) {
    const SeenRange all{ranges.back().begin, ranges.front().end};
    return all.begin < all.end ? all : SeenRange{};
}

void mix_seen(const GemmArgs& args, SeenRange by_all) {
    std::vector<int64_t> faults;
    find_faults(args.b, 0, by_all.begin, faults);
    find_faults(args.b, by_all.end, args.b.rows(), faults);
    if (faults.empty()) return gemm_single(args);
    const std::unique_ptr<std::byte[]> copy = copy_without_faults(args.b, faults);
    GemmArgs cleaned = args;
    cleaned.b.data = copy.get();
    gemm_single(cleaned);
    for (const int64_t row : faults) add_faults(args, row);
}

}  // namespace windlass
