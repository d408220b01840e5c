// Attention over the peak of products: attention_bench [f32|bf16] [threads] [filter]
//
// Counts what the model needs: pairs of a query and a key that it sees, two products forward, four backward.
// Peak is 1024 x 4096 x 4096 in the same type, measured right before each shape; inputs are Gaussian.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "op/gemm.h"
#include "op/ops.h"

namespace windlass {
namespace {

struct AttentionShape {
    const char* name;
    int64_t rows, sequence_length, heads, key_heads, head_size;
    bool packed;
};

constexpr AttentionShape kShapes[] = {
    {"gpt2, 8 x 512", 8, 512, 12, 12, 64, true},    {"gpt2, 4 x 1024", 4, 1024, 12, 12, 64, true},
    {"llama, 2 x 512", 2, 512, 32, 4, 64, false},   {"llama, 1 x 2048", 1, 2048, 32, 4, 64, false},
    {"qwen, 2 x 1024", 2, 1024, 16, 8, 128, false},
};

// Matrices of Gaussian numbers.
class Memory {
  public:
    Memory() {
        Random random(1, RandomStream::test);
        for (float& x : period_) x = random.normal();
    }
    Tensor matrix(DType dtype, int64_t rows, int64_t cols) {
        buffers_.emplace_back(rows * cols * dtype_bytes(dtype), true);
        const Tensor tensor(dtype, {rows, cols}, buffers_.back().data());
        for (int64_t i = 0; i < tensor.numel(); ++i) {
            const float x = period_[static_cast<size_t>(i + i / 65521 * 17) & 0xffff];
            if (dtype == DType::f32) {
                tensor.as<float>()[i] = x;
            } else {
                tensor.as<bf16>()[i] = to_bf16(x);
            }
        }
        return tensor;
    }
    std::vector<Tensor> values(std::span<const ValueSpec> specs, const OpSize& size) {
        std::vector<Tensor> all;
        for (const ValueSpec& spec : specs)
            all.push_back(matrix(dtype_of(spec.type, size.compute), size.tokens(), spec.cols));
        return all;
    }

  private:
    std::vector<HugeBuffer> buffers_;
    std::vector<float> period_ = std::vector<float>(1 << 16);
};

template <typename Body>
double median_seconds(Body body) {
    body();
    std::vector<double> seconds;
    for (double total = 0; total < 0.3 || seconds.size() < 3; total += seconds.back()) {
        const int64_t start = now_ns();
        body();
        seconds.push_back(seconds_since(start));
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return seconds[seconds.size() / 2];
}

double peak(DType dtype, Team& team) {
    Memory memory;
    const GemmArgs args{.a = memory.matrix(dtype, 1024, 4096),
                        .b = memory.matrix(dtype, 4096, 4096),
                        .c = memory.matrix(dtype, 1024, 4096),
                        .transpose_b = true};
    return 2.0 * 1024 * 4096 * 4096 / median_seconds([&] { gemm(args, team); });
}

void run(DType dtype, int threads, std::string_view filter) {
    CpuStream stream(threads);
    fmt::print("{:16} {:>9} {:>8} {:>8}\n", "", "peak", "forward", "backward");
    for (const auto& [name, rows, sequence_length, heads, key_heads, head_size, packed] : kShapes) {
        if (std::string_view(name).find(filter) == std::string_view::npos) continue;
        OpSpec spec{.attrs =
                        AttentionAttrs{heads, key_heads, head_size, 1 / std::sqrt(static_cast<double>(head_size)), 0}};
        const int64_t q = heads * head_size, kv = key_heads * head_size;
        spec.in = packed ? std::vector<ValueSpec>{{q + 2 * kv}} : std::vector<ValueSpec>{{q}, {kv}, {kv}};
        kAttention.infer(spec);
        const OpSize size{.rows = rows, .sequence_length = sequence_length, .compute = dtype, .threads = threads};
        Memory memory;
        const std::vector<int32_t> doc_start(static_cast<size_t>(size.tokens()), 0);
        const Batch batch{.rows = rows, .sequence_length = sequence_length, .doc_start = doc_start.data()};
        const auto in = memory.values(spec.in, size), grad_in = memory.values(spec.in, size);
        const auto out = memory.values(spec.out, size), grad_out = memory.values(spec.out, size);
        const auto saved = memory.values(spec.saved, size);
        const int64_t bytes = std::max(kAttention.scratch_bytes(spec, size, DiffMode::forward),
                                       kAttention.scratch_bytes(spec, size, DiffMode::vjp));
        HugeBuffer scratch(bytes, true);
        const OpCall call{.spec = &spec,
                          .size = &size,
                          .batch = &batch,
                          .in = in,
                          .out = out,
                          .saved = saved,
                          .grad_out = grad_out,
                          .grad_in = grad_in,
                          .scratch = scratch.span()};
        const double rate = peak(dtype, stream.team());
        const OpKernels& kernels = *kAttention.on(DeviceKind::cpu).kernels;
        const double forward = median_seconds([&] { kernels.forward(call, stream); });
        const double backward = median_seconds([&] { kernels.vjp(call, stream); });
        const auto over_peak = [&](DiffMode mode, double seconds) {
            return kAttention.cost(spec, size, mode).model_flops / seconds / rate;
        };
        fmt::print("{:16} {:5.0f} G/s {:8.2f} {:8.2f}\n", name, rate * 1e-9, over_peak(DiffMode::forward, forward),
                   over_peak(DiffMode::vjp, backward));
    }
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    const bool wide = argc > 1 && std::string_view(argv[1]) == "f32";
    windlass::run(wide ? windlass::DType::f32 : windlass::DType::bf16, argc > 2 ? std::atoi(argv[2]) : 2,
                  argc > 3 ? argv[3] : "");
}
