// Probes and updates along counter noise, over the memory's speed and over products: noise_bench [threads]
//
// For each kind of direction and each type of weights, what one pass does: write a tangent (bf16), update, write both
// probes (bf16), update and probe at once, and take eight steps of a log in one pass. Printed are processor cycles per
// element and thread, the bytes moved over a copy of as many by the same team, and the share of a zeroth-order step of
// 4096 tokens: 2 * 2 * 4096 operations for each weight at the rate of the bf16 and f32 products of 4096 x 2048 x 2048,
// measured in the same run. At the end, what it takes to copy weights that stay as the bf16 that is computed with, and
// to probe them in 4 bits.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "measure.h"
#include "method/forward_only/materialize.h"
#include "op/gemm.h"
#include "perturb/noise.h"

namespace windlass {
namespace {

constexpr int64_t kElements = int64_t{1} << 24, kCols = 4096, kRows = kElements / kCols, kRank = 2;
constexpr int kRounds = 7;

// Cycles of the processor in a second: each of these products waits three of them for the one before.
double clock_rate() {
    constexpr int kProducts = 10'000'000;
    uint64_t x = 3;
    const double seconds = median_seconds(kRounds, [&] {
        for (int i = 0; i < kProducts; ++i) asm volatile("imul %0, %0" : "+r"(x));
    });
    return 3.0 * kProducts / seconds;
}

struct Arrays {
    HugeBuffer weights{kElements * 4, true}, plus{kElements * 4, true}, minus{kElements * 4, true};
    std::vector<float> u = std::vector<float>(kRank * kRows, 0.5f), v = std::vector<float>(kRank * kCols, 0.25f);
};

// Operations in a second.
double product_rate(DType dtype, Arrays& arrays, Team& team) {
    constexpr int64_t kTokens = 4096, kWidth = 2048;
    Random random(1, RandomStream::test);
    for (HugeBuffer* buffer : {&arrays.weights, &arrays.plus}) {
        for (int64_t i = 0; i < kTokens * kWidth; ++i) {
            const float x = random.uniform() - 0.5f;
            if (dtype == DType::f32) {
                reinterpret_cast<float*>(buffer->data())[i] = x;
            } else {
                reinterpret_cast<bf16*>(buffer->data())[i] = to_bf16(x);
            }
        }
    }
    const GemmArgs args{.a = Tensor(dtype, {kTokens, kWidth}, arrays.plus.data()),
                        .b = Tensor(dtype, {kWidth, kWidth}, arrays.weights.data()),
                        .c = Tensor(dtype, {kTokens, kWidth}, arrays.minus.data()),
                        .transpose_b = true};
    return 2.0 * kTokens * kWidth * kWidth / median_seconds(kRounds, [&] { gemm(args, team); });
}

// Bytes in a second that a copy moves, both ways counted.
double copy_rate(Arrays& arrays, Team& team) {
    constexpr int64_t kPieces = 64, kBytes = kElements * 4 / kPieces;
    const double seconds = median_seconds(kRounds, [&] {
        team.parallel_for(kPieces, [&](int64_t piece, int) {
            std::memcpy(arrays.plus.data() + piece * kBytes, arrays.weights.data() + piece * kBytes, kBytes);
        });
    });
    return 2.0 * kBytes * kPieces / seconds;
}

constexpr int kHalfWindow = 25;  // steps

struct Rates {
    double clock, copy, bf16_products, f32_products;
    int threads;
};

void print(const Rates& rates, const char* what, double seconds, int64_t bytes) {
    const double element = seconds / kElements, moved = static_cast<double>(bytes) / element;
    const auto share = [&](double products) { return element / (element + 2 * 2 * 4096 / products); };
    fmt::print("  {:18} {:6.2f} cycles  {:5.1f} GB/s = {:.2f} of a copy  {:6.2f} % {:6.2f} %\n", what,
               element * rates.clock * rates.threads, moved * 1e-9, moved / rates.copy,
               100 * share(rates.bf16_products), 100 * share(rates.f32_products));
}

// A kind of direction; factors are given, or drawn.
struct Kind {
    NoiseKind kind;
    const char* name;
    bool is_given = false;
};

void run_case(const Kind& of, WeightType type, int64_t bytes, Arrays& arrays, const Rates& rates, Stream& stream) {
    const NoiseRun run{.seed = 1, .kind = of.kind, .count = kElements, .rows = kRows, .cols = kCols, .rank = kRank};
    const float *const u = of.is_given ? arrays.u.data() : nullptr, *const v = of.is_given ? arrays.v.data() : nullptr;
    const NoiseTerm moved{1, 0, 1e-9f, u, v, 1};
    const NoiseTerm probe{2, 0, 1e-3f, u, v, 1};
    const NoiseStep step{1, 0.0f, &moved, 1};
    const NoisePass update{.type = type,
                           .weights = arrays.weights.data(),
                           .updated = arrays.weights.data(),
                           .steps = &step,
                           .step_count = 1};
    NoisePass both = update;
    both.probe = &probe;
    both.probe_type = WeightType::bf16;
    both.plus = arrays.plus.data();
    both.minus = arrays.minus.data();
    NoisePass pair = both;
    pair.step_count = 0;
    constexpr std::array kTypes = {"f32", "bf16", "f16", "f8"};
    fmt::print("{}, weights in {}\n", of.name, kTypes[static_cast<size_t>(type)]);
    const auto pass = [&](const NoisePass& what) {
        return median_seconds(kRounds, [&] { update_and_probe(run, what, stream); });
    };
    const double tangent =
        median_seconds(kRounds, [&] { write_direction(run, probe, WeightType::bf16, arrays.plus.data(), stream); });
    print(rates, "tangent", tangent, 2);
    print(rates, "update", pass(update), 2 * bytes);
    print(rates, "probe pair", pass(pair), bytes + 4);
    print(rates, "update and probe", pass(both), 2 * bytes + 4);
    const std::vector<NoiseStep> log(8, step);
    NoisePass replay = update;
    replay.steps = log.data();
    replay.step_count = std::ssize(log);
    print(rates, "eight steps", pass(replay), 2 * bytes);
    if (of.kind != NoiseKind::low_rank || of.is_given) return;
    // Half a window of steps that stay beside the weights.
    const std::vector<NoiseTerm> window(kHalfWindow, moved);
    const NoiseStep sum{.step = 1, .terms = window.data(), .term_count = kHalfWindow, .adds_left = true};
    NoisePass open = both;
    open.updated = nullptr;
    open.steps = &sum;
    print(rates, "window and probe", pass(open), bytes + 4);
}

void run_copies(Arrays& arrays, const Rates& rates, Stream& stream) {
    fmt::print("copies of what stays\n");
    for (const DType type : {DType::f32, DType::f16, DType::f8_e4m3, DType::nf4}) {
        const LoneParam param{.spec = {.name = "w", .shape = {kRows, kCols}},
                              .training = {.trains = false},
                              .storage = {.store = StoreType::as_file, .dtype = type},
                              .perturb = {}};
        const StepParams step{};
        const MaterializeCall call{.param = param,
                                   .weights = arrays.weights.data(),
                                   .step = &step,
                                   .compute = DType::bf16,
                                   .plain = arrays.plus.data()};
        const double seconds = median_seconds(kRounds, [&] { materialize_points(call, stream); });
        print(rates, std::string(dtype_name(type)).c_str(), seconds, stored_bytes(type, 64) / 64 + 2);
    }
    const NoiseRun run{.seed = 1, .kind = NoiseKind::gaussian, .count = kElements};
    const NoiseTerm probe{2, 0, 1e-3f};
    const NoisePass pair{.type = WeightType::nf4,
                         .weights = arrays.weights.data(),
                         .probe = &probe,
                         .probe_type = WeightType::bf16,
                         .plus = arrays.plus.data(),
                         .minus = arrays.minus.data()};
    print(rates, "probe pair of nf4", median_seconds(kRounds, [&] { update_and_probe(run, pair, stream); }), 4);
}

void run(int threads) {
    CpuStream stream(threads);
    Arrays arrays;
    Rates rates{.clock = clock_rate(), .threads = threads};
    rates.bf16_products = product_rate(DType::bf16, arrays, stream.team());
    rates.f32_products = product_rate(DType::f32, arrays, stream.team());
    rates.copy = copy_rate(arrays, stream.team());
    fmt::print("{} threads, {}, {:.2f} GHz; copy {:.1f} GB/s; products {:.0f} (bf16) and {:.0f} (f32) Gop/s\n", threads,
               isa_name(cpu_isa()), rates.clock * 1e-9, rates.copy * 1e-9, rates.bf16_products * 1e-9,
               rates.f32_products * 1e-9);
    constexpr Kind kKinds[] = {{NoiseKind::gaussian, "gaussian"},
                               {NoiseKind::rademacher, "rademacher"},
                               {NoiseKind::low_rank, "rank 2, factors given", true},
                               {NoiseKind::low_rank, "rank 2, factors drawn"}};
    for (const Kind& kind : kKinds) {
        run_case(kind, WeightType::bf16, 2, arrays, rates, stream);
        run_case(kind, WeightType::f16, 2, arrays, rates, stream);
        run_case(kind, WeightType::f32, 4, arrays, rates, stream);
        run_case(kind, WeightType::f8, 1, arrays, rates, stream);
    }
    run_copies(arrays, rates, stream);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    windlass::run(argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency()));
}
