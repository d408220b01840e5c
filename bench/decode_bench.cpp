// Products of one row over what memory allows: decode_bench [f32|bf16] [threads] [filter]
//
// A token's products read each weight once, so the best they can do is to read them: the same bytes by the same
// threads, which do nothing but add them up. Shapes are those of SmolLM2 135M, Llama 1.1B and GPT-2 124M (stored [in,
// out]), matrix by matrix, all of a layer, and all of a token, where those of one input are multiplied in one go, as
// models do; matrices of a turn lie side by side and are not used again before a gibibyte of others. Products and
// readings take turns. Printed are the best of each, their ratio, and the middle half of the ratios of neighbouring
// turns. Where a product is faster, it is the better reading.
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

using Joined = std::vector<Product>;  // of one input

struct Turn {
    std::string name;
    std::vector<Joined> calls;
};

constexpr int64_t kBytes = int64_t{1} << 30;        // of weights: no cache holds them
constexpr int64_t kSliceBytes = int64_t{16} << 20;  // in a turn, unless a token takes more
constexpr int kRounds = 60;
constexpr int64_t kValues = int64_t{1} << 20;
constexpr double kNever = 1e9;

struct Model {
    const char* name;
    int64_t layers;
    std::vector<Joined> calls;
    std::vector<const char*> names;  // of the products
    Product head;
};

std::vector<Model> models() {
    return {{"smollm2",
             30,
             {{{576, 576}, {576, 192}, {576, 192}}, {{576, 576}}, {{576, 1536}, {576, 1536}}, {{1536, 576}}},
             {"q", "k", "v", "o", "gate", "up", "down"},
             {576, 49152}},
            {"llama",
             22,
             {{{2048, 2048}, {2048, 256}, {2048, 256}}, {{2048, 2048}}, {{2048, 5632}, {2048, 5632}}, {{5632, 2048}}},
             {"q", "k", "v", "o", "gate", "up", "down"},
             {2048, 32000}},
            {"gpt2",
             12,
             {{{768, 2304, true}}, {{768, 768, true}}, {{768, 3072, true}}, {{3072, 768, true}}},
             {"qkv", "proj", "up", "down"},
             {768, 50257}}};
}

int64_t bytes_of(const std::vector<Joined>& calls, DType dtype) {
    int64_t bytes = 0;
    for (const Joined& call : calls) {
        for (const Product& product : call) bytes += product.numbers() * dtype_bytes(dtype);
    }
    return bytes;
}

// The calls so many times that they fill a slice.
Turn filled(std::string name, const std::vector<Joined>& calls, DType dtype) {
    Turn turn{.name = std::move(name)};
    const int64_t each = bytes_of(calls, dtype);
    for (int64_t bytes = 0; bytes == 0 || bytes + each <= kSliceBytes; bytes += each)
        turn.calls.insert(turn.calls.end(), calls.begin(), calls.end());
    return turn;
}

bool is_of(const Turn& turn, const Product& product) {
    const Product& other = turn.calls[0][0];
    return turn.calls[0].size() == 1 && other.in == product.in && other.out == product.out;
}

std::vector<Turn> turns(DType dtype) {
    std::vector<Turn> all;
    for (const Model& model : models()) {
        size_t number = 0;
        for (const Joined& call : model.calls) {
            for (const Product& product : call) {
                const std::string name = fmt::format("{} {}", model.name, model.names[number++]);
                const auto same = [&](const Turn& turn) { return is_of(turn, product); };
                if (std::none_of(all.begin(), all.end(), same)) all.push_back(filled(name, {{product}}, dtype));
            }
        }
        all.push_back(filled(fmt::format("{} head", model.name), {{model.head}}, dtype));
        all.push_back(filled(fmt::format("{} q, k, v", model.name), {model.calls[0]}, dtype));
        if (model.calls[0].size() == 1) all.pop_back();
        all.push_back(filled(fmt::format("{} layer", model.name), model.calls, dtype));
        Turn token{.name = fmt::format("{} token", model.name)};
        for (int64_t i = 0; i < model.layers; ++i)
            token.calls.insert(token.calls.end(), model.calls.begin(), model.calls.end());
        token.calls.push_back({model.head});
        if (bytes_of(token.calls, dtype) <= kBytes) all.push_back(token);
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
        const int64_t bytes = bytes_of(turn.calls, dtype_);
        double reading = kNever, products = kNever;
        std::vector<double> ratios;
        for (int round = 0; round < kRounds; ++round) {
            const double read = seconds_of([&] { plain_read(slice(bytes), bytes, team_); });
            const double multiplied = seconds_of([&] { multiply(turn.calls, slice(bytes)); });
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
    void multiply(const std::vector<Joined>& calls, const std::byte* weights) {
        std::vector<GemmArgs> products;
        for (const Joined& call : calls) {
            products.clear();
            std::byte* y = values_.data() + kValues / 2;
            for (const Product& product : call) {
                const Shape stored = product.in_out ? Shape{product.in, product.out} : Shape{product.out, product.in};
                products.push_back({.a = Tensor(dtype_, {1, product.in}, values_.data()),
                                    .b = Tensor(dtype_, stored, const_cast<std::byte*>(weights)),
                                    .c = Tensor(dtype_, {1, product.out}, y),
                                    .transpose_b = !product.in_out});
                weights += products.back().b.bytes();
                y += products.back().c.bytes();
            }
            if (products.size() > 1)
                gemv_together(products, team_);
            else
                gemv(products[0], reinterpret_cast<float*>(space_.data()), team_);
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
