// What takes the place of a weight's gradient with sparse projectors: projector_bench [threads] [numbers a row]
// [rounds]
//
// Each matrix of a Llama of 1.1B at 2 x 512 tokens in bf16: x Q and dY P, the gradient of S from both, and the three
// together over the dense gradient of the weight, for projectors of half and of a quarter of the model's width. All are
// written in f32, in turn within a round, and what is printed are medians of rounds. Peak is 1024 x 4096 x 4096 in the
// same rounds. The last line weighs matrices as a layer has them.
#include <fmt/format.h>

#include <cstdlib>

#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "machine_line.h"
#include "measure.h"
#include "op/gemm.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr int64_t kRows = 2, kLength = 512, kWidth = 2048;

struct ProjectedMatrix {
    const char* name;
    int64_t in, out;
    int count;  // in a layer
};
constexpr ProjectedMatrix kMatrices[] = {
    {"q, o", 2048, 2048, 2}, {"k, v", 2048, 256, 2}, {"gate, up", 2048, 5632, 2}, {"down", 5632, 2048, 1}};

// A value of Gaussian numbers.
class GaussianValue {
  public:
    GaussianValue(int64_t rows, int64_t cols) : shape_({rows, cols}), buffer_(rows * cols * 2, true) {
        Random random(1, RandomStream::test);
        for (int64_t i = 0; i < shape_.numel(); ++i)
            reinterpret_cast<bf16*>(buffer_.data())[i] = to_bf16(random.normal());
    }
    Tensor tensor() const { return {DType::bf16, shape_, buffer_.data()}; }

  private:
    Shape shape_;
    HugeBuffer buffer_;
};

// x A of one projector.
class Projection {
  public:
    Projection(int64_t rows, int64_t cols, int64_t nonzeros, int threads)
        : size_{.rows = kRows, .sequence_length = kLength, .compute = DType::bf16, .threads = threads},
          spec_{.attrs = SparseAttrs{sparse_positions({rows, cols, nonzeros, 7}), SparseAttrs::Direction::project},
                .in = {{rows}},
                .weights = {{rows, nonzeros}}},
          values_(rows, nonzeros),
          to_(size_.tokens(), cols) {
        kSparse.infer(spec_);
        scratch_ = HugeBuffer(kSparse.scratch_bytes(spec_, size_, DiffMode::forward), true);
    }
    void run(const Tensor& from, Stream& stream) const {
        const Tensor to = to_.tensor();
        const Weight values{.base = values_.tensor()};
        OpCall call{.spec = &spec_, .size = &size_, .in = {&from, 1}, .out = {&to, 1}, .weights = {&values, 1}};
        call.scratch = scratch_.span();
        kSparse.on(DeviceKind::cpu).of(DiffMode::forward)(call, stream);
    }
    Tensor result() const { return to_.tensor(); }

  private:
    OpSize size_;
    OpSpec spec_;
    GaussianValue values_, to_;
    HugeBuffer scratch_;
};

// dY^T X
GemmArgs gradient(const Tensor& dy, const Tensor& x, const HugeBuffer& to) {
    return {.a = dy, .b = x, .c = {DType::f32, {dy.cols(), x.cols()}, to.data()}, .transpose_a = true};
}

struct Parts {
    double peak = 0, dense = 0, input = 0, output = 0, subspace = 0;  // seconds
    double projected() const { return input + output + subspace; }
};

Parts measure(const ProjectedMatrix& matrix, int64_t width, int64_t nonzeros, int threads, int rounds) {
    const int64_t tokens = kRows * kLength;
    const GaussianValue x(tokens, matrix.in), dy(tokens, matrix.out), left(1024, 4096), right(4096, 4096);
    const Projection q(matrix.in, std::min(width, matrix.in), nonzeros, threads);
    const Projection p(matrix.out, std::min(width, matrix.out), nonzeros, threads);
    const HugeBuffer to(std::max(matrix.in * matrix.out, int64_t{1024} * 4096) * 4, true);
    const GemmArgs peak{
        .a = left.tensor(), .b = right.tensor(), .c = {DType::bf16, {1024, 4096}, to.data()}, .transpose_b = true};
    CpuStream stream(threads);
    Team& team = cpu_team(stream);
    std::vector<double> seconds[5];
    for (int round = 0; round <= rounds; ++round) {
        const double taken[] = {seconds_of([&] { gemm(peak, team); }),
                                seconds_of([&] { gemm(gradient(dy.tensor(), x.tensor(), to), team); }),
                                seconds_of([&] { q.run(x.tensor(), stream); }),
                                seconds_of([&] { p.run(dy.tensor(), stream); }),
                                seconds_of([&] { gemm(gradient(p.result(), q.result(), to), team); })};
        for (size_t part = 0; part < 5 && round > 0; ++part) seconds[part].push_back(taken[part]);
    }
    return {median(seconds[0]), median(seconds[1]), median(seconds[2]), median(seconds[3]), median(seconds[4])};
}

void run(int threads, int64_t nonzeros, int rounds) {
    fmt::print("{}\nLlama 1.1B, bf16, {} x {} tokens, {} threads, {} numbers a row, {} rounds\n", machine_line(), kRows,
               kLength, threads, nonzeros, rounds);
    fmt::print("matrix       d    dense  of peak  |     x Q    dY P       S  of peak  |     all  over dense\n");
    for (const int64_t width : {kWidth / 2, kWidth / 4}) {
        double dense = 0, projected = 0;
        for (const ProjectedMatrix& matrix : kMatrices) {
            const Parts parts = measure(matrix, width, nonzeros, threads, rounds);
            const double rate = 2.0 * 1024 * 4096 * 4096 / parts.peak;
            const auto share = [&](int64_t rows, int64_t cols, double seconds) {
                return 2.0 * static_cast<double>(kRows * kLength * rows * cols) / seconds / rate;
            };
            fmt::print(
                "{:<8} {:>5} {:>5.2f} ms {:>8.2f}  | {:>4.2f} ms {:>4.2f} ms {:>4.2f} ms {:>7.2f}  | {:>4.2f} ms "
                "{:>12.3f}\n",
                matrix.name, width, parts.dense * 1e3, share(matrix.out, matrix.in, parts.dense), parts.input * 1e3,
                parts.output * 1e3, parts.subspace * 1e3,
                share(std::min(width, matrix.out), std::min(width, matrix.in), parts.subspace), parts.projected() * 1e3,
                parts.projected() / parts.dense);
            dense += matrix.count * parts.dense;
            projected += matrix.count * parts.projected();
        }
        fmt::print("a layer  {:>5} {:>5.2f} ms {:>46} {:>4.2f} ms {:>12.3f}\n", width, dense * 1e3, "|",
                   projected * 1e3, projected / dense);
    }
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    const auto argument = [&](int index, int otherwise) { return argc > index ? std::atoi(argv[index]) : otherwise; };
    windlass::run(argument(1, 2), argument(2, 8), argument(3, 15));
}
