// device_bench: a device's copies and kernels, each beside what the device could do, measured in the same run.
//
//   device_bench DEVICE [--tiny] [ROW...]   cpu, cpu:emulate or cuda[:N]; all rows unless some are named
//   device_bench --list
//
// Prints a table in Markdown as it goes. The share is of the ceiling; where a row beats it, there is none: its ceiling
// was not the device's. Aims that are rates are of an H200. --tiny is for devices of the tests: its figures say
// nothing. Ends with 1 where a row has no figure.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/units.h"
#include "machine_line.h"
#include "measure.h"
#include "method/recipe.h"
#include "op/ops.h"
#include "run/calibrate_parts.h"
#include "run/kernel_call.h"
#include "run/update_probe.h"
#include "tier/copy_mover.h"

namespace windlass {
namespace {

struct Sizes {
    int64_t copy_bytes = kGiB, copy_pieces = 64;
    int64_t tokens = 4096, inputs = 4096, outputs = 14336;  // of linear: an 8B model's feed-forward
    int64_t peak_side = 8192;
    int64_t heads = 32, head_size = 128, row = 4096, rows = 2;
    int64_t vocab = 131072, head_tokens = 8192, head_inputs = 4096;
    int64_t update_rows = 2048, update_chunks = 64;
    int64_t noise_side = 16384;
    int64_t decode_side = 16384;
    int rounds = 9, calls = 4;
};
constexpr Sizes kTiny{.copy_bytes = 1 << 16,
                      .copy_pieces = 4,
                      .tokens = 16,
                      .inputs = 64,
                      .outputs = 64,
                      .peak_side = 64,
                      .heads = 2,
                      .head_size = 64,
                      .row = 64,
                      .rows = 1,
                      .vocab = 64,
                      .head_tokens = 16,
                      .head_inputs = 64,
                      .update_rows = 64,
                      .update_chunks = 1,
                      .noise_side = 64,
                      .decode_side = 64,
                      .rounds = 2,
                      .calls = 1};

// What a row comes to. Zero: there is none.
struct Figure {
    double achieved = 0, ceiling = 0;  // a second
    double aim_share = 0, aim_rate = 0;
    const char* unit = "";  // what 1e9 of it are called; 1e12 for products
    double scale = 1e-9;
    std::string note = "";
};

class DeviceBench {
  public:
    DeviceBench(DeviceId id, const Sizes& sizes)
        : id_(id), sizes_(sizes), device_(make_device(id)), stream_(device_->make_stream(/*threads=*/1)) {}

    std::string device() const {
        const DeviceProperties found = device_->properties();
        return found.name.empty() ? device_name(id_) : fmt::format("{}, {}", found.name, found.kernel_path);
    }

    Figure copies_up() { return copies(true, false); }
    Figure copies_down() { return copies(false, true); }
    Figure copies_both() { return copies(true, true); }
    Figure linear_forward() {
        return product(kLinear, linear(), tokens(sizes_.tokens), DiffMode::forward, /*aim=*/0.90);
    }
    // Two of the three products: dX is to reach 0.90, dW 0.85.
    Figure linear_backward() { return product(kLinear, linear(), tokens(sizes_.tokens), DiffMode::vjp, /*aim=*/0.875); }
    Figure attention_forward() { return attention(DiffMode::forward, /*products=*/2, 300e12); }
    Figure attention_backward() { return attention(DiffMode::vjp, /*products=*/5, 200e12); }
    Figure attention_tangent() { return attention(DiffMode::jvp, /*products=*/6, 150e12); }
    Figure head() {
        Figure made = product(kCrossEntropy,
                              {.attrs = CrossEntropyAttrs{},
                               .in = {{sizes_.head_inputs}},
                               .weights = {{sizes_.vocab, sizes_.head_inputs}}},
                              tokens(sizes_.head_tokens), DiffMode::vjp, /*aim=*/0);
        made.aim_rate = 600e12;
        return made;
    }
    Figure adamw_fp32() { return adamw(StateFormat::fp32); }
    Figure adamw_bf16() { return adamw(StateFormat::bf16); }
    Figure adamw_int8() { return adamw(StateFormat::int8); }
    Figure probes();
    Figure decoding();

  private:
    std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind kind) {
        std::unique_ptr<Memory> memory = device_->allocate(bytes, kind);
        fill_randomly(*memory, DType::f32);
        return memory;
    }
    static OpSize tokens(int64_t count) { return {.rows = 1, .sequence_length = count, .compute = DType::bf16}; }
    OpSpec linear() const {
        return {.attrs = LinearAttrs{}, .in = {{sizes_.inputs}}, .weights = {{sizes_.outputs, sizes_.inputs}}};
    }
    // A call's own time: several are waited for together, after some that warm up.
    double seconds_of_call(const std::function<void()>& call) {
        call();
        stream_->synchronize();
        return median_seconds(sizes_.rounds,
                              [&] {
                                  for (int i = 0; i < sizes_.calls; ++i) call();
                                  stream_->synchronize();
                              }) /
               sizes_.calls;
    }
    double flops_of(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode) {
        KernelCall call(op, std::move(spec), size, mode, *device_, *stream_);
        return call.cost().model_flops / seconds_of_call([&] { call(); });
    }
    double best_product();
    double device_copy();
    Figure product(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, double aim);
    Figure attention(DiffMode mode, int products, double aim);
    Figure copies(bool up, bool down);
    Figure adamw(StateFormat format);

    DeviceId id_;
    Sizes sizes_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    double best_product_ = 0, device_copy_ = 0;
};

// The fastest of some large products.
double DeviceBench::best_product() {
    if (best_product_ > 0) return best_product_;
    const int64_t side = sizes_.peak_side;
    for (const auto& [inputs, outputs] : {std::pair(side, side), {side / 2, 2 * side}, {side / 2, side / 2}})
        best_product_ = std::max(
            best_product_, flops_of(kLinear, {.attrs = LinearAttrs{}, .in = {{inputs}}, .weights = {{outputs, inputs}}},
                                    tokens(side), DiffMode::forward));
    return best_product_;
}

// Read plus written.
double DeviceBench::device_copy() {
    if (device_copy_ > 0) return device_copy_;
    const auto from = allocate(sizes_.copy_bytes, MemoryKind::device),
               to = allocate(sizes_.copy_bytes, MemoryKind::device);
    const double seconds = seconds_of_call([&] {
        stream_->launch([&](const Launch& launch) {
            launch.stream().copy(to->address(launch), from->address(launch), sizes_.copy_bytes);
        });
    });
    return device_copy_ = 2 * static_cast<double>(sizes_.copy_bytes) / seconds;
}

Figure DeviceBench::product(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, double aim) {
    const double ceiling = best_product();
    KernelCall call(op, std::move(spec), size, mode, *device_, *stream_);
    return {.achieved = call.cost().model_flops / seconds_of_call([&] { call(); }),
            .ceiling = ceiling,
            .aim_share = aim,
            .unit = "TFLOP/s",
            .scale = 1e-12,
            .note = fmt::format("{} of scratch", format_bytes(call.scratch_bytes()))};
}

// Causal: a product is half of that of all pairs. What a kernel computes twice is not counted.
Figure DeviceBench::attention(DiffMode mode, int products, double aim) {
    const int64_t columns = sizes_.heads * sizes_.head_size;
    const OpSpec spec{.attrs = AttentionAttrs{.heads = sizes_.heads,
                                              .key_heads = sizes_.heads,
                                              .head_size = sizes_.head_size,
                                              .scale = 1 / std::sqrt(static_cast<double>(sizes_.head_size))},
                      .in = {{columns}, {columns}, {columns}}};
    const OpSize size{.rows = sizes_.rows, .sequence_length = sizes_.row, .compute = DType::bf16};
    KernelCall call(kAttention, spec, size, mode, *device_, *stream_);
    const double pairs = 0.5 * static_cast<double>(sizes_.rows * sizes_.row * (sizes_.row + 1) * sizes_.heads);
    const double flops = products * 2.0 * static_cast<double>(sizes_.head_size) * pairs;
    return {.achieved = flops / seconds_of_call([&] { call(); }),
            .ceiling = best_product(),
            .aim_rate = aim,
            .unit = "TFLOP/s",
            .scale = 1e-12,
            .note = fmt::format("{} products counted", products)};
}

// As training moves weights, in pieces over streams of their own, beside one copy of as many bytes.
Figure DeviceBench::copies(bool up, bool down) {
    struct Way {
        std::unique_ptr<Memory> from, to;
        std::unique_ptr<Stream> stream;
    };
    std::vector<Way> ways;
    for (const bool is_up : {true, false}) {
        if (!(is_up ? up : down)) continue;
        ways.push_back({allocate(sizes_.copy_bytes, is_up ? MemoryKind::host : MemoryKind::device),
                        allocate(sizes_.copy_bytes, is_up ? MemoryKind::device : MemoryKind::host),
                        device_->make_stream(1)});
    }
    CopyMover mover;
    const auto seconds = [&](int64_t pieces) {
        const int64_t bytes = sizes_.copy_bytes / pieces;
        return median_seconds(sizes_.rounds, [&] {
            for (int64_t piece = 0; piece < pieces; ++piece) {
                for (Way& way : ways)
                    way.stream->launch([&](const Launch& launch) {
                        const auto size = static_cast<size_t>(bytes);
                        const CopyRange range{{way.from->address(launch) + piece * bytes, size},
                                              {way.to->address(launch) + piece * bytes, size}};
                        mover.transfer({&range, 1}, launch.stream());
                    });
            }
            for (Way& way : ways) way.stream->synchronize();
        });
    };
    const double moved = static_cast<double>(sizes_.copy_bytes) * static_cast<double>(ways.size());
    seconds(1);
    return {.achieved = moved / seconds(sizes_.copy_pieces),
            .ceiling = moved / seconds(1),
            .aim_share = 0.95,
            .unit = "GB/s",
            .note = fmt::format("pieces of {}", format_bytes(sizes_.copy_bytes / sizes_.copy_pieces))};
}

Figure DeviceBench::adamw(StateFormat format) {
    const double ceiling = device_copy();
    const Recipe recipe = make_recipe("adamw", {.state_format = format});
    std::vector<std::unique_ptr<UpdateProbe>> chunks;
    for (int64_t chunk = 0; chunk < sizes_.update_chunks; ++chunk)
        chunks.push_back(std::make_unique<UpdateProbe>(recipe, sizes_.update_rows, *device_, *stream_));
    const double seconds = seconds_of_call([&] {
        for (const std::unique_ptr<UpdateProbe>& chunk : chunks) (*chunk)();
    });
    return {.achieved = static_cast<double>(sizes_.update_chunks * chunks[0]->bytes()) / seconds,
            .ceiling = ceiling,
            .aim_share = 0.85,
            .unit = "GB/s"};
}

Figure DeviceBench::probes() {
    Machine machine;
    calibrate_noise(*device_, *stream_, sizes_.noise_side, sizes_.noise_side, machine);
    return {.achieved = machine.noise_per_s, .aim_rate = 2e11, .unit = "G numbers/s"};
}

// A token reads all weights once.
Figure DeviceBench::decoding() {
    const double ceiling = device_copy();  // as many bytes, half of them written
    const int64_t side = sizes_.decode_side;
    KernelCall call(kLinear, {.attrs = LinearAttrs{}, .in = {{side}}, .weights = {{side, side}}}, tokens(1),
                    DiffMode::forward, *device_, *stream_);
    return {.achieved = static_cast<double>(2 * side * side) / seconds_of_call([&] { call(); }),
            .ceiling = ceiling,
            .aim_share = 0.70,
            .unit = "GB/s",
            .note = "one token's product"};
}

struct Row {
    const char* name;
    Figure (DeviceBench::*measure)();
};
constexpr Row kRows[] = {{"copies_up", &DeviceBench::copies_up},
                         {"copies_down", &DeviceBench::copies_down},
                         {"copies_both", &DeviceBench::copies_both},
                         {"linear_forward", &DeviceBench::linear_forward},
                         {"linear_backward", &DeviceBench::linear_backward},
                         {"attention_forward", &DeviceBench::attention_forward},
                         {"attention_backward", &DeviceBench::attention_backward},
                         {"attention_tangent", &DeviceBench::attention_tangent},
                         {"head", &DeviceBench::head},
                         {"adamw_fp32", &DeviceBench::adamw_fp32},
                         {"adamw_bf16", &DeviceBench::adamw_bf16},
                         {"adamw_int8", &DeviceBench::adamw_int8},
                         {"probes", &DeviceBench::probes},
                         {"decoding", &DeviceBench::decoding}};

std::string verdict(const Figure& figure) {
    const bool has_share = figure.ceiling > 0 && figure.achieved <= figure.ceiling;
    if (figure.aim_share > 0)
        return !has_share ? "no share" : figure.achieved >= figure.aim_share * figure.ceiling ? "met" : "not met";
    return figure.aim_rate == 0 ? "" : figure.achieved >= figure.aim_rate ? "met" : "not met";
}

void print(const Row& row, const Figure& figure) {
    const auto rate = [&](double value) {
        return value > 0 ? fmt::format("{:.4g} {}", value * figure.scale, figure.unit) : "";
    };
    const bool has_share = figure.ceiling > 0 && figure.achieved <= figure.ceiling;
    fmt::print("| {} | {} | {} | {} | {} | {} | {} |\n", row.name, rate(figure.achieved), rate(figure.ceiling),
               has_share ? fmt::format("{:.2f}", figure.achieved / figure.ceiling) : "",
               figure.aim_share > 0 ? fmt::format("{:.3g}", figure.aim_share) : rate(figure.aim_rate), verdict(figure),
               figure.note);
    std::fflush(stdout);
}

int run(const std::vector<std::string>& words) {
    DeviceBench bench(parse_device(words[0], "device"), std::ranges::count(words, "--tiny") > 0 ? kTiny : Sizes());
    const auto is_wanted = [&, all = std::ranges::all_of(words.begin() + 1, words.end(), [](const auto& word) {
                                   return word.starts_with("--");
                               })](const Row& row) { return all || std::ranges::count(words, row.name) > 0; };
    fmt::print(
        "{}; host {}\n\n| row | achieved | ceiling | share | aim | verdict | |\n| --- | --- | --- | --- | --- | --- | "
        "--- |\n",
        bench.device(), machine_line());
    bool is_whole = true;
    for (const Row& row : kRows) {
        if (!is_wanted(row)) continue;
        const Figure figure = (bench.*row.measure)();
        is_whole = is_whole && std::isfinite(figure.achieved) && figure.achieved > 0;
        print(row, figure);
    }
    return is_whole ? 0 : 1;
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) {
        fmt::print(stderr, "usage: device_bench DEVICE [--tiny] [ROW...], device_bench --list\n");
        return 2;
    }
    if (words[0] == "--list") {
        for (const Row& row : kRows) fmt::print("{}\n", row.name);
        return 0;
    }
    try {
        return run(words);
    } catch (const Error& error) {
        fmt::print(stderr, "device_bench: {}\n", error.what());
        return static_cast<int>(error.code());
    }
}
