// Decoding over what memory allows: decode_bench [f32|bf16] [threads] [filter]
//
// A token's products read each weight once, so the best they can do is to read them: the same bytes by the same
// threads, which do nothing but add them up. Shapes are those of SmolLM2 135M, Llama 1.1B and GPT-2 124M (stored [in,
// out]), one row and eight; a product's matrices are many, so that none is left in a cache from the call before.
// Readings and products take turns; printed is the median of the rounds' ratios, and the median rate of each.
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/file.h"
#include "base/math.h"
#include "base/rng.h"
#include "measure.h"
#include "op/gemm.h"
#include "op/gemv.h"

namespace windlass {
namespace {

struct LayerShape {
    const char* name;
    int64_t in, out;
    bool in_out;  // the weight is stored [in, out]
};

constexpr LayerShape kShapes[] = {
    {"smollm2 q, o", 576, 576, false},     {"smollm2 k, v", 576, 192, false},   {"smollm2 gate, up", 576, 1536, false},
    {"smollm2 down", 1536, 576, false},    {"smollm2 head", 576, 49152, false}, {"llama q, o", 2048, 2048, false},
    {"llama gate, up", 2048, 5632, false}, {"llama down", 5632, 2048, false},   {"llama head", 2048, 32000, false},
    {"gpt2 qkv", 768, 2304, true},         {"gpt2 proj", 768, 768, true},       {"gpt2 up", 768, 3072, true},
    {"gpt2 down", 3072, 768, true},
};

constexpr int64_t kBytes = int64_t{1} << 30;        // of weights: no cache holds them
constexpr int64_t kSliceBytes = int64_t{16} << 20;  // in a turn
constexpr int kRounds = 60;
constexpr int64_t kValues = int64_t{8} << 20;
constexpr double kNever = 1e9;
constexpr int64_t kReadPiece = int64_t{256} << 10;

// Adds up a piece as 64-bit words, in eight running sums: vector additions that wait for nothing but memory.
uint64_t read_piece(const std::byte* from, int64_t bytes) {
    typedef uint64_t Words __attribute__((vector_size(64), aligned(8), may_alias));
    Words sums[4] = {};
    const auto* const words = reinterpret_cast<const Words*>(from);
    const int64_t count = bytes / static_cast<int64_t>(sizeof(Words));
    for (int64_t i = 0; i + 4 <= count; i += 4) {
        __builtin_prefetch(words + i + 32);
        __builtin_prefetch(words + i + 33);
        __builtin_prefetch(words + i + 34);
        __builtin_prefetch(words + i + 35);
        for (int64_t u = 0; u < 4; ++u) sums[u] += words[i + u];
    }
    const Words sum = sums[0] + sums[1] + sums[2] + sums[3];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

class Bench {
  public:
    Bench(DType dtype, int threads)
        : dtype_(dtype), weights_(kBytes, true), values_(kValues, true), space_(kValues, true), team_(threads) {
        Random random(1, RandomStream::test);
        fill(weights_, random);
        fill(values_, random);
    }

    void run(const LayerShape& shape) {
        const int64_t matrix = shape.in * shape.out * dtype_bytes(dtype_);
        const int64_t count = std::max<int64_t>(1, kSliceBytes / matrix), bytes = matrix * count;
        fmt::print("{:18}", shape.name);
        for (const int64_t rows : {1, 4}) {
            double reading = kNever, product = kNever;
            for (int round = 0; round < kRounds; ++round) {
                reading = std::min(reading, seconds_of([&] { read(slice(bytes), bytes); }));
                product = std::min(product, seconds_of([&] { multiply(shape, rows, slice(bytes), count); }));
            }
            const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds * 1e-9; };
            fmt::print("   {} x: {:5.1f} GB/s over {:5.1f} = {:4.2f}", rows, rate(product), rate(reading),
                       reading / product);
        }
        fmt::print("\n");
    }

  private:
    void fill(const HugeBuffer& buffer, Random& random) {
        std::array<float, 4096> period;
        for (float& x : period) x = random.normal();
        const int64_t count = buffer.size() / dtype_bytes(dtype_);
        for (int64_t i = 0; i < count; ++i) {
            const float x = period[static_cast<size_t>(i + i / 4093 * 17) % period.size()];
            if (dtype_ == DType::f32)
                reinterpret_cast<float*>(buffer.data())[i] = x;
            else
                reinterpret_cast<bf16*>(buffer.data())[i] = to_bf16(x);
        }
    }
    // The next bytes of the weights, which were used longest ago.
    const std::byte* slice(int64_t bytes) {
        if (next_ + bytes > kBytes) next_ = 0;
        next_ += bytes;
        return weights_.data() + next_ - bytes;
    }
    void read(const std::byte* from, int64_t bytes) {
        team_.parallel_for(div_up(bytes, kReadPiece), [&](int64_t index, int) {
            const int64_t begin = index * kReadPiece;
            const uint64_t sum = read_piece(from + begin, std::min(kReadPiece, bytes - begin));
            asm volatile("" : : "r"(sum));
        });
    }
    void multiply(const LayerShape& shape, int64_t rows, const std::byte* weights, int64_t count) {
        const Tensor x(dtype_, {rows, shape.in}, values_.data());
        const Tensor y(dtype_, {rows, shape.out}, values_.data() + kValues / 2);
        const Shape stored = shape.in_out ? Shape{shape.in, shape.out} : Shape{shape.out, shape.in};
        const int64_t w_bytes = shape.in * shape.out * dtype_bytes(dtype_);
        for (int64_t index = 0; index < count; ++index) {
            const Tensor w(dtype_, stored, const_cast<std::byte*>(weights) + index * w_bytes);
            gemv({.a = x, .b = w, .c = y, .transpose_b = !shape.in_out}, reinterpret_cast<float*>(space_.data()),
                 team_);
        }
    }

    DType dtype_;
    HugeBuffer weights_, values_, space_;
    int64_t next_ = 0;
    Team team_;
};

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    const DType dtype = argc > 1 && std::string_view(argv[1]) == "f32" ? DType::f32 : DType::bf16;
    Bench bench(dtype, argc > 2 ? std::atoi(argv[2]) : 2);
    const std::string_view filter = argc > 3 ? argv[3] : "";
    for (const auto& shape : kShapes) {
        if (std::string_view(shape.name).find(filter) != std::string_view::npos) bench.run(shape);
    }
}
