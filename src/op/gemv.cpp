#include "op/gemv.h"

#include <array>

#include "base/math.h"
#include "op/gemm.h"
#include "op/loops_cpu.h"

namespace windlass {
namespace {

constexpr IsaKernel<const GemvKernels> kKernels{&baseline::kGemvKernels, &avx2::kGemvKernels, &avx512::kGemvKernels};

const GemvKernels& kernels() {
    return cpu_isa() == Isa::avx512_bf16 ? avx512::kGemvBf16Kernels : *kKernels.pick();
}

constexpr int64_t kPanelsWanted = 8;           // enough that threads end together, at the price of handing them out
constexpr int64_t kPanelBytesMax = 128 << 10;  // of the matrix
constexpr int64_t kPanelMax = 512;             // outputs of a panel
constexpr int64_t kPanelStep = 4;

constexpr int64_t kPartsWanted = 8;  // of a matrix that is read across its outputs
constexpr int64_t kPartStep = 8;     // rows
constexpr int64_t kColumnsAtOnce = 1024;
static_assert(kColumnsAtOnce % kGemvColumnStep == 0);

// Outputs of a panel, by the shape of B and its type alone.
int64_t panel_outputs(const GemmArgs& args, int64_t k, int64_t n) {
    const int64_t bytes = k * dtype_bytes(args.b.dtype);
    const int64_t most = std::clamp(round_down(kPanelBytesMax / bytes, kPanelStep), kPanelStep, kPanelMax);
    return std::clamp(round_up(div_up(n, kPanelsWanted), kPanelStep), kPanelStep, most);
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

void check(const GemmArgs& args) {
    const int64_t n = args.c.shape[1], k = args.a.shape[1];
    const bool fits = args.a.shape[0] == 1 && args.c.shape[0] == 1 && args.b.shape[args.transpose_b ? 0 : 1] == n &&
                      args.b.shape[args.transpose_b ? 1 : 0] == k && args.a.dtype == args.b.dtype &&
                      (args.bias.empty() || (args.bias.dtype == DType::f32 && args.bias.numel() == n));
    WINDLASS_CHECK(fits && !args.transpose_a && !args.accumulate, "a product of one row, {} and {}{} into {}",
                   args.a.shape.to_string(), args.b.shape.to_string(), args.transpose_b ? "^T" : "",
                   args.c.shape.to_string());
}

template <typename Number>
const GemvLoops<Number>& loops_of() {
    if constexpr (std::is_same_v<Number, float>)
        return kernels().wide;
    else
        return kernels().narrow;
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

// B lies by outputs: each is a sum of its own.
template <typename Number>
void multiply_rows(const GemmArgs& args, Team& team) {
    const int64_t n = args.c.shape[1], panel = panel_outputs(args, args.a.shape[1], n);
    const Shares shares(div_up(n, panel), team);
    team.parallel_for(shares.draws(), [&](int64_t draw, int) {
        const int64_t index = shares.piece(draw);
        if (index < 0) return;
        const int64_t begin = index * panel, count = std::min(panel, n - begin);
        std::array<float, kPanelMax> sums;
        write_outputs(args, begin, count, sums.data(), [&](float* y) {
            loops_of<Number>().dots(matrix_of<Number>(args.b.slice_rows(begin, count)), args.a.as<Number>(), y);
        });
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
        loops_of<Number>().combine(matrix_of<Number>(args.b.slice_rows(begin, count)), args.a.as<Number>() + begin,
                                   space + part * stride);
    });
    team.parallel_for(div_up(n, kColumnsAtOnce), [&](int64_t index, int) {
        const int64_t begin = index * kColumnsAtOnce, count = std::min(kColumnsAtOnce, n - begin);
        std::array<float, kColumnsAtOnce> sums;
        write_outputs(args, begin, count, sums.data(),
                      [&](float* y) { loops_of<Number>().add_parts(space + begin, stride, parts, y, count); });
    });
}

template <typename Number>
void multiply(const GemmArgs& args, float* space, Team& team) {
    args.transpose_b ? multiply_rows<Number>(args, team) : multiply_columns<Number>(args, space, team);
}

}  // namespace

int64_t gemv_space_bytes(int64_t k, int64_t n, bool transpose_b) {
    return transpose_b ? 0 : div_up(k, part_rows(k)) * float_bytes(n);
}

void gemv(const GemmArgs& args, float* space, Team& team) {
    check(args);
    args.b.dtype == DType::f32 ? multiply<float>(args, space, team) : multiply<uint16_t>(args, space, team);
}

}  // namespace windlass
