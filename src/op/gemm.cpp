#include "op/gemm.h"

#include <limits>

#include "base/file.h"
#include "base/math.h"
#include "op/gemm_onednn.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

struct PanelSize {
    int64_t rows, cols;
};

constexpr int64_t kPanelStep = 64;
constexpr int64_t kPanelMax = 1024;

// What a panel costs, in units of its products: each row and column of its edge adds the packing of one vector of
// K, which weighs as much as this many products (measured, bf16 with AVX-512).
constexpr double kPackingCost = 12;
// Panels are cut for this many threads. Fewer threads, if they divide it, are as well served.
constexpr int64_t kPanelThreads = 8;

double panel_makespan(int64_t m, int64_t n, PanelSize panel) {
    const int64_t count = div_up(m, panel.rows) * div_up(n, panel.cols);
    const auto rows = static_cast<double>(panel.rows), cols = static_cast<double>(panel.cols);
    return static_cast<double>(div_up(count, kPanelThreads)) * (rows * cols + kPackingCost * (rows + cols));
}

// The panel that ends soonest; the bigger one of two equals.
PanelSize panel_size(int64_t m, int64_t n) {
    PanelSize best{};
    double least = std::numeric_limits<double>::infinity();
    for (int64_t rows = std::min(kPanelMax, round_up(m, kPanelStep)); rows > 0; rows -= kPanelStep) {
        for (int64_t cols = std::min(kPanelMax, round_up(n, kPanelStep)); cols > 0; cols -= kPanelStep) {
            const PanelSize panel{std::min(rows, m), std::min(cols, n)};
            const double makespan = panel_makespan(m, n, panel);
            if (makespan >= least) continue;
            least = makespan;
            best = panel;
        }
    }
    return best;
}

int64_t depth(const GemmArgs& args) {
    return args.a.shape[args.transpose_a ? 0 : 1];
}

void check(const GemmArgs& args) {
    WINDLASS_CHECK(args.a.shape.rank() == 2 && args.b.shape.rank() == 2 && args.c.shape.rank() == 2,
                   "a product of {} and {} into {}", args.a.shape.to_string(), args.b.shape.to_string(),
                   args.c.shape.to_string());
    const int64_t k = depth(args);
    const bool fits = args.a.shape[args.transpose_a ? 1 : 0] == args.c.shape[0] &&
                      args.b.shape[args.transpose_b ? 0 : 1] == args.c.shape[1] &&
                      args.b.shape[args.transpose_b ? 1 : 0] == k && k > 0 &&
                      (args.bias.empty() || args.bias.numel() == args.c.shape[1]);
    WINDLASS_CHECK(fits, "a product of {}{} and {}{} into {}", args.a.shape.to_string(), args.transpose_a ? "^T" : "",
                   args.b.shape.to_string(), args.transpose_b ? "^T" : "", args.c.shape.to_string());
    WINDLASS_CHECK(args.a.dtype == args.b.dtype && (args.c.dtype == args.a.dtype || args.c.dtype == DType::f32),
                   "a product of {} and {} into {}", dtype_name(args.a.dtype), dtype_name(args.b.dtype),
                   dtype_name(args.c.dtype));
}

// Rows [i, i + m) and columns [j, j + n) of the product.
GemmArgs panel_of(const GemmArgs& args, int64_t i, int64_t m, int64_t j, int64_t n) {
    GemmArgs panel = args;
    panel.a = args.transpose_a ? args.a.slice_cols(i, m) : args.a.slice_rows(i, m);
    panel.b = args.transpose_b ? args.b.slice_rows(j, n) : args.b.slice_cols(j, n);
    panel.c = args.c.slice_rows(i, m).slice_cols(j, n);
    if (!args.bias.empty()) {
        panel.bias = Tensor(args.bias.dtype, {n}, args.bias.as<std::byte>() + j * dtype_bytes(args.bias.dtype));
    }
    return panel;
}

// ---- bf16 on a CPU that does not multiply it ----

constexpr int64_t kWideDepth = 1024;  // of K at a time: bounds the f32 copies to three squares of this side

// Rows are short and far apart, which processors do not foresee: those that come next are asked for early.
Tensor widened(const Tensor& narrow, float* to) {
    constexpr int64_t kAheadBytes = 4096, kLineBytes = 64;
    const auto widen = convert_loops().widen;
    const int64_t cols = narrow.cols(), row_bytes = cols * dtype_bytes(DType::bf16);
    const int64_t ahead = div_up(kAheadBytes, row_bytes) * narrow.row_stride;
    const auto* from = narrow.as<uint16_t>();
    for (int64_t row = 0; row < narrow.rows(); ++row, from += narrow.row_stride) {
        const auto* const next = reinterpret_cast<const std::byte*>(from + ahead);
        for (int64_t at = 0; at < row_bytes; at += kLineBytes) __builtin_prefetch(next + at);
        widen(from, to + row * cols, cols);
    }
    return {DType::f32, narrow.shape, to};
}

// C = sum over pieces of K of A B, in f32 and in ascending order, then rounded once.
void wide_panel(const GemmArgs& args) {
    constexpr int64_t kSquare = kPanelMax * kWideDepth;
    thread_local HugeBuffer buffer((3 * kSquare + kPanelMax) * 4, false);
    float* const space = reinterpret_cast<float*>(buffer.data());
    Tensor bias = args.bias;
    if (bias.dtype == DType::bf16 && !bias.empty()) {
        convert_loops().widen(bias.as<uint16_t>(), space + 3 * kSquare, bias.numel());
        bias = Tensor(DType::f32, bias.shape, space + 3 * kSquare);
    }
    const bool narrow_out = args.c.dtype == DType::bf16;
    const Tensor sum = !narrow_out       ? args.c
                       : args.accumulate ? widened(args.c, space)
                                         : Tensor(DType::f32, args.c.shape, space);
    for (int64_t begin = 0, k = depth(args); begin < k; begin += kWideDepth) {
        const int64_t count = std::min(kWideDepth, k - begin);
        const Tensor a = args.transpose_a ? args.a.slice_rows(begin, count) : args.a.slice_cols(begin, count);
        const Tensor b = args.transpose_b ? args.b.slice_cols(begin, count) : args.b.slice_rows(begin, count);
        onednn_matmul({.a = widened(a, space + kSquare),
                       .b = widened(b, space + 2 * kSquare),
                       .c = sum,
                       .transpose_a = args.transpose_a,
                       .transpose_b = args.transpose_b,
                       .accumulate = args.accumulate || begin > 0,
                       .bias = begin == 0 ? bias : Tensor()});
    }
    if (!narrow_out) return;
    for (int64_t row = 0; row < sum.rows(); ++row) {
        convert_loops().narrow(sum.as<float>() + row * sum.row_stride, args.c.as<uint16_t>() + row * args.c.row_stride,
                               sum.cols());
    }
}

void compute_panel(const GemmArgs& args) {
    if (onednn_has(args.a.dtype)) {
        onednn_matmul(args);
    } else {
        wide_panel(args);
    }
}

}  // namespace

void gemm(const GemmArgs& args, Team& team) {
    check(args);
    const int64_t m = args.c.shape[0], n = args.c.shape[1];
    if (m == 0 || n == 0) return;
    const PanelSize size = panel_size(m, n);
    const int64_t panel_rows = div_up(m, size.rows);
    team.parallel_for(panel_rows * div_up(n, size.cols), [&](int64_t index, int) {
        const int64_t i = index % panel_rows * size.rows, j = index / panel_rows * size.cols;
        compute_panel(panel_of(args, i, std::min(size.rows, m - i), j, std::min(size.cols, n - j)));
    });
}

void gemm_single(const GemmArgs& args) {
    check(args);
    const int64_t m = args.c.shape[0], n = args.c.shape[1];
    if (onednn_has(args.a.dtype)) return onednn_matmul(args);
    for (int64_t i = 0; i < m; i += kPanelMax) {
        for (int64_t j = 0; j < n; j += kPanelMax) {
            wide_panel(panel_of(args, i, std::min(kPanelMax, m - i), j, std::min(kPanelMax, n - j)));
        }
    }
}

}  // namespace windlass
