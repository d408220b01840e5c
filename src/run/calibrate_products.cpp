#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "base/units.h"
#include "device/cpu/cpu_stream.h"
#include "device/host_memory.h"
#include "op/gemm.h"
#include "op/ops.h"
#include "run/calibrate.h"
#include "run/calibrate_parts.h"
#include "run/kernel_call.h"

namespace windlass {
namespace {

// y [rows, outputs] = x W^T.
struct ProductShape {
    int64_t rows, inputs, outputs;
};
constexpr ProductShape kLarge = {1024, 2048, 2048};             // enough for the peak, a few milliseconds long
constexpr ProductShape kUsual = {512, 1024, 1024};              // as short as those of small models
constexpr ProductShape kNarrow = {kNarrowRows, 2048, 1 << 14};  // weights of 64 MiB or more: no cache holds them

// A product y = x W^T with operands of its own.
class Product {
  public:
    Product(DType dtype, const ProductShape& shape)
        : dtype_(dtype),
          shape_(shape),
          x_(shape.rows * shape.inputs * dtype_bytes(dtype)),
          w_(shape.outputs * shape.inputs * dtype_bytes(dtype)),
          y_(shape.rows * shape.outputs * dtype_bytes(dtype)) {
        fill_randomly(x_, dtype);
        fill_randomly(w_, dtype);
    }

    void operator()(Team& team) {
        gemm({.a = Tensor(dtype_, {shape_.rows, shape_.inputs}, x_.address()),
              .b = Tensor(dtype_, {shape_.outputs, shape_.inputs}, w_.address()),
              .c = Tensor(dtype_, {shape_.rows, shape_.outputs}, y_.address()),
              .transpose_b = true},
             team);
    }
    double flops() const {
        return 2.0 * static_cast<double>(shape_.rows) * static_cast<double>(shape_.inputs * shape_.outputs);
    }

  private:
    DType dtype_;
    ProductShape shape_;
    HostMemory x_, w_, y_;
};

double product_rate(DType dtype, const ProductShape& shape, Team& team) {
    Product product(dtype, shape);
    return rounded(product.flops() / best_seconds([&] { product(team); }));
}

// The best of many rounds that alternate, so that both see the same machine. Less than one, or more than all threads
// together, is an accident of the measurement.
double one_thread_gain(Team& team) {
    constexpr int kRounds = 40;
    Product product(DType::bf16, kUsual);
    Team one(1);
    double alone = 1e30, together = 1e30;
    for (int round = 0; round < kRounds; ++round) {
        for (const auto& [who, best] : {std::pair{&one, &alone}, {&team, &together}}) {
            const int64_t start = now_ns();
            product(*who);
            *best = std::min(*best, seconds_since(start));
        }
    }
    return std::clamp(rounded(team.size() * together / alone), 1.0, static_cast<double>(team.size()));
}

double attention_rate(DType dtype, Device& device, Stream& stream) {
    constexpr int64_t kHeads = 8, kHeadSize = 64;
    const OpSize size{.rows = 2, .sequence_length = 1024, .compute = dtype, .threads = cpu_team(stream).size()};
    const int64_t cols = kHeads * kHeadSize;
    KernelCall call(kAttention,
                    {.attrs = AttentionAttrs{kHeads, kHeads, kHeadSize, 0.125}, .in = {{cols}, {cols}, {cols}}}, size,
                    DiffMode::forward, device, stream);
    return rounded(call.flops() / best_seconds([&] { call(); }));
}

// What a call costs that computes next to nothing: the mean over a block's usual kinds of kernels.
double call_seconds(Device& device, Stream& stream) {
    constexpr int64_t kCols = 16, kRepeats = 50;
    const OpSize size{.rows = 1, .sequence_length = 16, .compute = DType::f32, .threads = cpu_team(stream).size()};
    std::vector<KernelCall> calls;
    calls.reserve(4);
    const auto add = [&](const OpRecord& op, OpSpec spec) {
        calls.emplace_back(op, std::move(spec), size, DiffMode::forward, device, stream);
    };
    add(kRmsNorm, {.attrs = RmsNormAttrs{}, .in = {{kCols}}, .weights = {{kCols}}});
    add(kLinear, {.attrs = LinearAttrs{}, .in = {{kCols}}, .weights = {{kCols, kCols}}});
    add(kSwiglu, {.attrs = SwigluAttrs{}, .in = {{kCols}, {kCols}}});
    add(kAdd, {.in = {{kCols}, {kCols}}});
    const double seconds = best_seconds([&] {
        for (int64_t repeat = 0; repeat < kRepeats; ++repeat)
            for (KernelCall& call : calls) call();
    });
    return rounded(seconds / (kRepeats * static_cast<double>(calls.size())));
}

// Of calls in turn whose values no cache holds together, as in a step, where each layer has its own. Gradients of
// weights are written and added to in turn: a step with several micro-batches does both.
double kernel_rate(const KernelCase& each, Device& device, Stream& stream, int threads, int64_t cache_bytes) {
    constexpr int64_t kCallsMax = 32;
    const int64_t bytes_min = 2 * cache_bytes;
    OpSize size = each.size;
    size.threads = threads;
    std::vector<std::unique_ptr<KernelCall>> calls;
    int64_t bytes = 0;
    double flops = 0;
    do {
        calls.push_back(std::make_unique<KernelCall>(*each.op, each.spec, size, each.mode, device, stream));
        bytes += calls.back()->bytes();
        flops += calls.back()->flops();
    } while (bytes < bytes_min && std::ssize(calls) < kCallsMax);
    const bool both_forms = calls.front()->has_sinks();
    const double seconds = usual_seconds([&] {
        for (int form = 0; form < (both_forms ? 2 : 1); ++form)
            for (const std::unique_ptr<KernelCall>& call : calls) {
                call->set_adding(form == 1);
                (*call)();
            }
        stream.synchronize();
    });
    return rounded((both_forms ? 2 : 1) * flops / seconds);
}

}  // namespace

void calibrate_products(Device& device, Stream& stream, Machine& machine) {
    Team& team = cpu_team(stream);
    machine.gemm_bf16_flops = product_rate(DType::bf16, kLarge, team);
    machine.gemm_f32_flops = product_rate(DType::f32, kLarge, team);
    machine.one_thread_gain = one_thread_gain(team);
    machine.narrow_bf16_flops = product_rate(DType::bf16, kNarrow, team);
    machine.narrow_f32_flops = product_rate(DType::f32, kNarrow, team);
    machine.attention_bf16_flops = attention_rate(DType::bf16, device, stream);
    machine.attention_f32_flops = attention_rate(DType::f32, device, stream);
    machine.kernel_seconds = call_seconds(device, stream);
}

void calibrate_kernels(std::span<const KernelCase> cases, Device& device, int threads, Machine& machine) {
    constexpr int64_t kUsualCache = 48 * kMiB;  // of a device that reports none
    const std::unique_ptr<Stream> stream = device.make_stream(threads);
    const int64_t known = device.properties().cache_bytes, cache_bytes = known > 0 ? known : kUsualCache;
    for (const KernelCase& each : cases) {
        if (!machine.kernels.contains(each.key))
            machine.kernels[each.key] = kernel_rate(each, device, *stream, threads, cache_bytes);
    }
}

}  // namespace windlass
