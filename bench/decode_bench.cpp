// Products of one row over what memory allows: decode_bench [f32|bf16] [threads] [filter]
//
// A token's products read each weight once, so the best they can do is to read them: the same bytes by the same
// threads, which do nothing but add them up. Shapes are those of SmolLM2 135M, Llama 1.1B and GPT-2 124M (stored [in,
// out]), matrix by matrix, all of a layer, and all of a token; matrices of a turn lie side by side and are not used
// again before a gibibyte of others. Products and readings take turns. Printed are the best of each, their ratio, and
// the middle half of the ratios of neighbouring turns. Where a product is faster, it is the better reading.
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "base/file.h"
#include "base/rng.h"
#include "machine_line.h"
#include "measure.h"
#include "op/gemm.h"
#include "op/gemv.h"
#include "plain_read.h"

namespace windlass {
namespace {

struct Product {
    int64_t in, out;
    bool in_out = false;  // the weight is stored [in, out]

    int64_t numbers() const { return in * out; }
};

struct Turn {
    std::string name;
    std::vector<Product> products;
};

constexpr int64_t kBytes = int64_t{1} << 30;        // of weights: no cache holds them
constexpr int64_t kSliceBytes = int64_t{16} << 20;  // in a turn, unless a token takes more
constexpr int kRounds = 60;
constexpr int64_t kValues = int64_t{1} << 20;
constexpr double kNever = 1e9;

struct Model {
    const char* name;
    int64_t layers;
    std::vector<std::pair<const char*, Product>> products;
    Product head;
};

std::vector<Model> models() {
    return {{"smollm2",
             30,
             {{"q", {576, 576}},
              {"k", {576, 192}},
              {"v", {576, 192}},
              {"o", {576, 576}},
              {"gate", {576, 1536}},
              {"up", {576, 1536}},
              {"down", {1536, 576}}},
             {576, 49152}},
            {"llama",
             22,
             {{"q", {2048, 2048}},
              {"k", {2048, 256}},
              {"v", {2048, 256}},
              {"o", {2048, 2048}},
              {"gate", {2048, 5632}},
              {"up", {2048, 5632}},
              {"down", {5632, 2048}}},
             {2048, 32000}},
            {"gpt2",
             12,
             {{"qkv", {768, 2304, true}},
              {"proj", {768, 768, true}},
              {"up", {768, 3072, true}},
              {"down", {3072, 768, true}}},
             {768, 50257}}};
}

int64_t bytes_of(const std::vector<Product>& products, DType dtype) {
    int64_t bytes = 0;
    for (const Product& product : products) bytes += product.numbers() * dtype_bytes(dtype);
    return bytes;
}

// The products so many times that they fill a slice.
Turn filled(std::string name, const std::vector<Product>& products, DType dtype) {
    Turn turn{.name = std::move(name)};
    for (int64_t bytes = 0; bytes == 0 || bytes + bytes_of(products, dtype) <= kSliceBytes;
         bytes += bytes_of(products, dtype))
        turn.products.insert(turn.products.end(), products.begin(), products.end());
    return turn;
}

std::vector<Turn> turns(DType dtype) {
    std::vector<Turn> all;
    for (const Model& model : models()) {
        std::vector<Product> layer, token;
        for (const auto& [name, product] : model.products) {
            layer.push_back(product);
            const auto same = [&, in = product.in, out = product.out](const Turn& turn) {
                return turn.products[0].in == in && turn.products[0].out == out;
            };
            if (std::none_of(all.begin(), all.end(), same))
                all.push_back(filled(fmt::format("{} {}", model.name, name), {product}, dtype));
        }
        all.push_back(filled(fmt::format("{} head", model.name), {model.head}, dtype));
        all.push_back(filled(fmt::format("{} layer", model.name), layer, dtype));
        for (int64_t i = 0; i < model.layers; ++i) token.insert(token.end(), layer.begin(), layer.end());
        token.push_back(model.head);
        if (bytes_of(token, dtype) <= kBytes) all.push_back({fmt::format("{} token", model.name), token});
    }
    return all;
}

class Bench {
  public:
    Bench(DType dtype, int threads)
        : dtype_(dtype), weights_(kBytes, true), values_(kValues, true), space_(kValues, true), team_(threads) {
        Random random(1, RandomStream::test);
        fill(weights_, random);
        fill(values_, random);
    }

    void run(const Turn& turn) {
        const int64_t bytes = bytes_of(turn.products, dtype_);
        double reading = kNever, products = kNever;
        std::vector<double> ratios;
        for (int round = 0; round < kRounds; ++round) {
            const double read = seconds_of([&] { plain_read(slice(bytes), bytes, team_); });
            const double multiplied = seconds_of([&] { multiply(turn.products, slice(bytes)); });
            reading = std::min({reading, read, multiplied});
            products = std::min(products, multiplied);
            ratios.push_back(std::min(1.0, read / multiplied));
        }
        std::sort(ratios.begin(), ratios.end());
        const auto rate = [&](double seconds) { return static_cast<double>(bytes) / seconds * 1e-9; };
        fmt::print("{:14} {:5.1f} GB/s over {:5.1f} = {:4.2f}   {:4.2f} to {:4.2f}\n", turn.name, rate(products),
                   rate(reading), reading / products, ratios[kRounds / 4], ratios[kRounds * 3 / 4]);
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
    void multiply(const std::vector<Product>& products, const std::byte* weights) {
        for (const Product& product : products) {
            const Tensor x(dtype_, {1, product.in}, values_.data());
            const Tensor y(dtype_, {1, product.out}, values_.data() + kValues / 2);
            const Shape stored = product.in_out ? Shape{product.in, product.out} : Shape{product.out, product.in};
            const Tensor w(dtype_, stored, const_cast<std::byte*>(weights));
            gemv({.a = x, .b = w, .c = y, .transpose_b = !product.in_out}, reinterpret_cast<float*>(space_.data()),
                 team_);
            weights += w.bytes();
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
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    const std::string_view filter = argc > 3 ? argv[3] : "";
    fmt::print("{}, {}, {} threads\n", machine_line(), dtype_name(dtype), threads);
    Bench bench(dtype, threads);
    for (const Turn& turn : turns(dtype)) {
        if (turn.name.find(filter) != std::string::npos) bench.run(turn);
    }
}
