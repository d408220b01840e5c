#include "op/gemv.h"

#include <array>

#include "base/math.h"
#include "op/gemm.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const GemvKernels> kGemvKernels{&baseline::kGemvKernels, &avx2::kGemvKernels,
                                                    &avx512::kGemvKernels};

// A panel is a run of outputs: short enough that threads end together, and long enough that they seldom begin again.
constexpr int64_t kPanelsMost = 8, kPanelsLeast = 2;  // of a matrix, unless panels would become too long
constexpr int64_t kPanelBytesMin = 96 << 10, kPanelBytesMax = 512 << 10;
constexpr int64_t kOutputPanelMax = 512;  // outputs
constexpr int64_t kOutputPanelStep = 4;

constexpr int64_t kPartsWanted = 8;  // of a matrix that is read across its outputs
constexpr int64_t kPartStep = 8;     // rows
constexpr int64_t kColumnsAtOnce = 1024;
static_assert(kColumnsAtOnce % kGemvColumnStep == 0);

// Outputs of a panel, by the shape and the type of matrices alone that have n of them together.
int64_t panel_outputs(const GemmArgs& args, int64_t n) {
    const int64_t bytes = args.a.shape[1] * dtype_bytes(args.b.dtype);  // of one output
    int64_t panels = kPanelsMost;
    while (panels > kPanelsLeast && n * bytes < panels * kPanelBytesMin) panels /= 2;
    const int64_t most =
        std::clamp(round_down(kPanelBytesMax / bytes, kOutputPanelStep), kOutputPanelStep, kOutputPanelMax);
    return std::clamp(round_up(div_up(n, panels), kOutputPanelStep), kOutputPanelStep, most);
}

// Pieces of a matrix in such an order that workers who draw in turn each get neighbours: what is asked for early beyond
// a piece's end is the next one's. Only the order follows from the team.
class Shares {
  public:
    Shares(int64_t pieces, const Team& team)
        : pieces_(pieces), workers_(team.size()), each_(div_up(pieces, workers_)) {}
    int64_t draws() const { return workers_ * each_; }
    // -1: the share has ended.
    int64_t piece(int64_t draw) const {
        const int64_t piece = draw % workers_ * each_ + draw / workers_;
        return piece < pieces_ ? piece : -1;
    }

  private:
    int64_t pieces_, workers_, each_;
};

int64_t part_rows(int64_t k) {
    return round_up(div_up(k, kPartsWanted), kPartStep);
}

int64_t part_stride(int64_t n) {
    return float_bytes(n) / static_cast<int64_t>(sizeof(float));
}

void check_gemv(const GemmArgs& args) {
    const int64_t n = args.c.shape[1], k = args.a.shape[1];
    const bool fits = args.a.shape[0] == 1 && args.c.shape[0] == 1 && args.b.shape[args.transpose_b ? 0 : 1] == n &&
                      args.b.shape[args.transpose_b ? 1 : 0] == k && args.a.dtype == args.b.dtype &&
                      (args.bias.empty() || (args.bias.dtype == DType::f32 && args.bias.numel() == n));
    WINDLASS_CHECK(fits && !args.transpose_a && !args.accumulate, "a product of one row, {} and {}{} into {}",
                   args.a.shape.to_string(), args.b.shape.to_string(), args.transpose_b ? "^T" : "",
                   args.c.shape.to_string());
}

template <typename Number>
const GemvLoops<Number>& gemv_loops() {
    if constexpr (std::is_same_v<Number, float>)
        return kGemvKernels.pick()->wide;
    else
        return kGemvKernels.pick()->narrow;
}

template <typename Number>
GemvMatrix<Number> matrix_of(const Tensor& b) {
    return {b.as<Number>(), b.rows(), b.cols(), b.row_stride};
}

// Calls make(y) for the outputs [begin, begin + count) in f32, and finishes them: bias, type.
template <typename Make>
void write_outputs(const GemmArgs& args, int64_t begin, int64_t count, float* buffer, Make make) {
    const Tensor c = args.c.slice_cols(begin, count);
    const bool in_place = c.dtype == DType::f32;
    float* const y = in_place ? c.as<float>() : buffer;
    make(y);
    if (!args.bias.empty()) convert_loops().add(args.bias.as<float>() + begin, y, count);
    if (!in_place) convert_loops().narrow(y, c.as<uint16_t>(), count);
}

// B lies by outputs: each is a sum of its own, wherever it is computed.
template <typename Number>
void multiply_panel(const GemmArgs& args, int64_t begin, int64_t count) {
    std::array<float, kOutputPanelMax> sums;
    write_outputs(args, begin, count, sums.data(), [&](float* y) {
        gemv_loops<Number>().dots(matrix_of<Number>(args.b.slice_rows(begin, count)), args.a.as<Number>(), y);
    });
}

// Outputs are counted through all products.
void multiply_rows(std::span<const GemmArgs> products, Team& team) {
    int64_t outputs = 0;
    for (const GemmArgs& each : products) outputs += each.c.shape[1];
    const int64_t panel = panel_outputs(products[0], outputs);
    const Shares shares(div_up(outputs, panel), team);
    team.parallel_for(shares.draws(), [&](int64_t draw, int) {
        const int64_t index = shares.piece(draw);
        if (index < 0) return;
        int64_t first = 0;  // of the product's outputs
        for (const GemmArgs& each : products) {
            const int64_t begin = std::max(index * panel, first),
                          end = std::min((index + 1) * panel, first + each.c.shape[1]);
            if (begin < end)
                each.b.dtype == DType::f32 ? multiply_panel<float>(each, begin - first, end - begin)
                                           : multiply_panel<uint16_t>(each, begin - first, end - begin);
            first += each.c.shape[1];
        }
    });
}

// B lies by inputs. A part of them is read from end to end, as memory likes it, and gives a part of every output.
template <typename Number>
void multiply_columns(const GemmArgs& args, float* space, Team& team) {
    const int64_t n = args.c.shape[1], k = args.a.shape[1];
    const int64_t rows = part_rows(k), parts = div_up(k, rows), stride = part_stride(n);
    const Shares shares(parts, team);
    team.parallel_for(shares.draws(), [&](int64_t draw, int) {
        const int64_t part = shares.piece(draw);
        if (part < 0) return;
        const int64_t begin = part * rows, count = std::min(rows, k - begin);
        gemv_loops<Number>().combine(matrix_of<Number>(args.b.slice_rows(begin, count)), args.a.as<Number>() + begin,
                                     space + part * stride);
    });
    team.parallel_for(div_up(n, kColumnsAtOnce), [&](int64_t index, int) {
        const int64_t begin = index * kColumnsAtOnce, count = std::min(kColumnsAtOnce, n - begin);
        std::array<float, kColumnsAtOnce> sums;
        write_outputs(args, begin, count, sums.data(),
                      [&](float* y) { gemv_loops<Number>().add_parts(space + begin, stride, parts, y, count); });
    });
}

}  // namespace

int64_t gemv_space_bytes(int64_t k, int64_t n, bool transpose_b) {
    return transpose_b ? 0 : div_up(k, part_rows(k)) * float_bytes(n);
}

void gemv(const GemmArgs& args, float* space, Team& team) {
    check_gemv(args);
    if (args.transpose_b) return multiply_rows({&args, 1}, team);
    args.b.dtype == DType::f32 ? multiply_columns<float>(args, space, team)
                               : multiply_columns<uint16_t>(args, space, team);
}

void gemv_together(std::span<const GemmArgs> products, Team& team) {
    for (const GemmArgs& each : products) {
        check_gemv(each);
        WINDLASS_CHECK(
            each.transpose_b && each.a.shape[1] == products[0].a.shape[1] && each.b.dtype == products[0].b.dtype,
            "products together of {} and {}", products[0].b.shape.to_string(), each.b.shape.to_string());
    }
    multiply_rows(products, team);
}

}  // namespace windlass
