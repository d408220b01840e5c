// Products of whole training steps over the peak: gemm_bench [f32|bf16] [threads] [filter]
//
// Each of the shapes of GPT-2 124M (4096 tokens) and of a Llama of 1.1B (1024 tokens) in its four roles: forward
// (fwd), gradient of the input (dgrad), gradient of the weight written (wgrad) and added up (wgrad+, f32). Peak is
// 1024 x 4096 x 4096 in the same type, measured right before each shape; inputs are Gaussian.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "op/gemm.h"

namespace windlass {
namespace {

struct LayerShape {
    const char* name;
    int64_t tokens, in, out;
    bool in_out;  // the weight is stored [in, out]
};

constexpr LayerShape kShapes[] = {
    {"gpt2 qkv", 4096, 768, 2304, true},     {"gpt2 proj", 4096, 768, 768, true},
    {"gpt2 up", 4096, 768, 3072, true},      {"gpt2 down", 4096, 3072, 768, true},
    {"gpt2 head", 640, 768, 50257, false},   {"llama q, o", 1024, 2048, 2048, false},
    {"llama k, v", 1024, 2048, 256, false},  {"llama gate, up", 1024, 2048, 5632, false},
    {"llama down", 1024, 5632, 2048, false}, {"llama head", 1024, 2048, 32000, false},
};

// Gaussian numbers, enough for the largest operand.
class Numbers {
  public:
    Numbers(DType dtype, int64_t count) : dtype_(dtype), buffer_(count * dtype_bytes(dtype), true) {
        Random random(1, RandomStream::test);
        std::vector<float> period(1 << 16);
        for (float& x : period) x = random.normal();
        for (int64_t i = 0; i < count; ++i) {
            const float x = period[static_cast<size_t>((i + i / 65521 * 17) & 0xffff)];
            if (dtype == DType::f32) {
                reinterpret_cast<float*>(buffer_.data())[i] = x;
            } else {
                reinterpret_cast<bf16*>(buffer_.data())[i] = to_bf16(x);
            }
        }
    }
    Tensor matrix(int64_t rows, int64_t cols) const { return {dtype_, {rows, cols}, buffer_.data()}; }

  private:
    DType dtype_;
    HugeBuffer buffer_;
};

// FLOP/s: the median of repetitions that take about a quarter of a second together.
double rate(const GemmArgs& args, Team& team) {
    const int64_t k = args.a.shape[args.transpose_a ? 0 : 1];
    const double flops = 2.0 * static_cast<double>(args.c.numel()) * static_cast<double>(k);
    gemm(args, team);
    std::vector<double> seconds;
    for (double total = 0; total < 0.25 || seconds.size() < 3; total += seconds.back()) {
        const int64_t start = now_ns();
        gemm(args, team);
        seconds.push_back(seconds_since(start));
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return flops / seconds[seconds.size() / 2];
}

void run(DType dtype, int threads, std::string_view filter) {
    constexpr int64_t kNumbersMax = int64_t{50257} * 2048;
    const Numbers a(dtype, kNumbersMax), b(dtype, kNumbersMax), c(DType::f32, kNumbersMax);
    const auto out = [&](int64_t rows, int64_t cols) { return Tensor(dtype, {rows, cols}, c.matrix(1, 1).data); };
    Team team(threads);
    fmt::print("{:16} {:>9} {:>6} {:>6} {:>6} {:>6}\n", "", "peak", "fwd", "dgrad", "wgrad", "wgrad+");
    for (const auto& [name, tokens, in, width, in_out] : kShapes) {
        if (std::string_view(name).find(filter) == std::string_view::npos) continue;
        const double peak = rate(
            {.a = a.matrix(1024, 4096), .b = b.matrix(4096, 4096), .c = out(1024, 4096), .transpose_b = true}, team);
        const Tensor x = a.matrix(tokens, in), y = b.matrix(tokens, width);
        const Tensor w = in_out ? b.matrix(in, width) : b.matrix(width, in);
        GemmArgs wgrad{
            .a = in_out ? x : y, .b = in_out ? y : x, .c = c.matrix(w.rows(), w.cols()), .transpose_a = true};
        const double forward = rate({.a = x, .b = w, .c = out(tokens, width), .transpose_b = !in_out}, team);
        const double dgrad = rate({.a = y, .b = w, .c = out(tokens, in), .transpose_b = in_out}, team);
        const double written = rate(wgrad, team);
        wgrad.accumulate = true;
        const double added = rate(wgrad, team);
        fmt::print("{:16} {:5.0f} G/s {:6.2f} {:6.2f} {:6.2f} {:6.2f}\n", name, peak * 1e-9, forward / peak,
                   dgrad / peak, written / peak, added / peak);
    }
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    const DType dtype = argc > 1 && std::string_view(argv[1]) == "f32" ? DType::f32 : DType::bf16;
    run(dtype, argc > 2 ? std::atoi(argv[2]) : 2, argc > 3 ? argv[3] : "");
}
