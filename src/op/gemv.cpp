#include "op/gemv.h"

#include <array>

#include "base/math.h"
#include "op/gemm.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const GemvKernels> kKernels{&baseline::kGemvKernels, &avx2::kGemvKernels, &avx512::kGemvKernels};

constexpr int64_t kPanelsWanted = 8;           // enough that threads end together, at the price of handing them out
constexpr int64_t kPanelBytesMax = 128 << 10;  // stays in the second-level cache for the rows that share it
constexpr int64_t kPanelMax = 512;             // outputs of a panel
constexpr int64_t kPanelStep = 4;              // of outputs whose numbers of B lie in rows
constexpr int64_t kAcrossStep = 128;           // of outputs whose numbers of B lie in columns: whole cache lines

// Outputs of a panel, by the shape of B and its type alone.
int64_t panel_outputs(const GemmArgs& args, int64_t k, int64_t n) {
    const int64_t step = args.transpose_b ? kPanelStep : kAcrossStep;
    const int64_t bytes = k * dtype_bytes(args.b.dtype);
    const int64_t most = std::clamp(round_down(kPanelBytesMax / bytes, step), step, kPanelMax);
    return std::clamp(round_up(div_up(n, kPanelsWanted), step), step, args.transpose_b ? most : kPanelMax);
}

void check(const GemmArgs& args) {
    const int64_t m = args.c.shape[0], n = args.c.shape[1], k = args.a.shape[1];
    const bool fits = args.a.shape[0] == m && args.b.shape[args.transpose_b ? 0 : 1] == n &&
                      args.b.shape[args.transpose_b ? 1 : 0] == k && m <= kGemvRowsMax &&
                      (args.bias.empty() || (args.bias.dtype == DType::f32 && args.bias.numel() == n));
    WINDLASS_CHECK(fits && !args.transpose_a && !args.accumulate, "a product of a few rows, {} and {}{} into {}",
                   args.a.shape.to_string(), args.b.shape.to_string(), args.transpose_b ? "^T" : "",
                   args.c.shape.to_string());
}

template <typename Number>
void compute_panel(const GemvLoops<Number>& loops, const GemmArgs& args, const GemvRows& x, int64_t begin,
                   const GemvRows& y, int64_t count) {
    const Tensor b = args.transpose_b ? args.b.slice_rows(begin, count) : args.b.slice_cols(begin, count);
    const GemvMatrix<Number> matrix{b.as<Number>(), b.rows(), b.cols(), b.row_stride};
    args.transpose_b ? loops.dots(matrix, x, y) : loops.combine(matrix, x, y);
}

// The rows of A in f32, as the loops want them: in place, or in `space`.
GemvRows wide_rows(const GemmArgs& args, float* space) {
    const Tensor& a = args.a;
    if (a.dtype == DType::f32) return {a.as<float>(), a.rows(), a.row_stride};
    for (int64_t row = 0; row < a.rows(); ++row) {
        const uint16_t* const from = a.as<uint16_t>() + row * a.row_stride;
        const auto arrange = args.transpose_b ? kKernels.pick()->narrow.arrange : convert_loops().widen;
        arrange(from, space + row * a.cols(), a.cols());
    }
    return {space, a.rows(), a.cols()};
}

}  // namespace

int64_t gemv_space_bytes(int64_t m, int64_t k) {
    return float_bytes(m * k);
}

void gemv(const GemmArgs& args, float* space, Team& team) {
    check(args);
    const int64_t n = args.c.shape[1], k = args.a.shape[1];
    const GemvRows x = wide_rows(args, space);
    const int64_t panel = panel_outputs(args, k, n);
    team.parallel_for(div_up(n, panel), [&](int64_t index, int) {
        const int64_t begin = index * panel, count = std::min(panel, n - begin);
        const Tensor c = args.c.slice_cols(begin, count);
        const bool in_place = c.dtype == DType::f32;
        std::array<float, kGemvRowsMax * kPanelMax> sums;
        const GemvRows y =
            in_place ? GemvRows{c.as<float>(), x.count, c.row_stride} : GemvRows{sums.data(), x.count, count};
        if (args.b.dtype == DType::f32)
            compute_panel(kKernels.pick()->wide, args, x, begin, y, count);
        else
            compute_panel(kKernels.pick()->narrow, args, x, begin, y, count);
        for (int64_t row = 0; row < y.count; ++row) {
            float* const out = y.data + row * y.stride;
            if (!args.bias.empty()) convert_loops().add(args.bias.as<float>() + begin, out, count);
            if (!in_place) convert_loops().narrow(out, c.as<uint16_t>() + row * c.row_stride, count);
        }
    });
}

}  // namespace windlass
