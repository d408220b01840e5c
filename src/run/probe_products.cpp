#include "base/file.h"
#include "base/rng.h"
#include "base/units.h"
#include "device/cpu/cpu_stream.h"
#include "op/gemm.h"
#include "op/ops.h"
#include "run/probe_parts.h"

namespace windlass {
namespace {

// Random numbers, since processors are faster on constant ones; the same megabyte again and again.
void fill(HugeBuffer& buffer, DType dtype) {
    Random random(1, RandomStream::test);
    const int64_t period = std::min(buffer.size(), kMiB);
    for (int64_t i = 0; i < period / dtype_bytes(dtype); ++i) {
        const float x = random.uniform() - 0.5f;
        if (dtype == DType::f32)
            reinterpret_cast<float*>(buffer.data())[i] = x;
        else
            reinterpret_cast<bf16*>(buffer.data())[i] = to_bf16(x);
    }
    for (int64_t at = period; at < buffer.size(); at += period)
        std::memcpy(buffer.data() + at, buffer.data(), static_cast<size_t>(std::min(period, buffer.size() - at)));
}

// y [rows, outputs] = x W^T.
struct ProductShape {
    int64_t rows, inputs, outputs;
};
constexpr ProductShape kLarge = {1024, 2048, 2048};             // enough for the peak, a few milliseconds long
constexpr ProductShape kNarrow = {kNarrowRows, 2048, 1 << 14};  // weights of 64 MiB or more: no cache holds them

double product_rate(DType dtype, const ProductShape& shape, Team& team) {
    const int64_t size = dtype_bytes(dtype);
    HugeBuffer x(shape.rows * shape.inputs * size, true), w(shape.outputs * shape.inputs * size, true),
        y(shape.rows * shape.outputs * size, true);
    fill(x, dtype);
    fill(w, dtype);
    const GemmArgs args{.a = Tensor(dtype, {shape.rows, shape.inputs}, x.data()),
                        .b = Tensor(dtype, {shape.outputs, shape.inputs}, w.data()),
                        .c = Tensor(dtype, {shape.rows, shape.outputs}, y.data()),
                        .transpose_b = true};
    const double flops = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.inputs * shape.outputs);
    return rounded(flops / best_seconds([&] { gemm(args, team); }));
}

// One op with inputs, weights and outputs of its own, called forward.
class ForwardCall {
  public:
    ForwardCall(const OpRecord& op, OpSpec spec, const OpSize& size) : op_(op), spec_(std::move(spec)), size_(size) {
        op_.infer(spec_);
        for (const ValueSpec& value : spec_.in) in_.push_back(tensor({size.tokens(), value.cols}, value.type));
        for (const ValueSpec& value : spec_.out) out_.push_back(tensor({size.tokens(), value.cols}, value.type));
        for (const ValueSpec& value : spec_.saved) saved_.push_back(tensor({size.tokens(), value.cols}, value.type));
        for (const Shape& shape : spec_.weights) weights_.push_back({.base = tensor(shape, ValueType::compute)});
        if (op_.scratch_bytes != nullptr)
            scratch_ = HugeBuffer(op_.scratch_bytes(spec_, size_, Direction::forward), true);
        doc_start_.resize(static_cast<size_t>(size.tokens()));
        batch_ = {.rows = size.rows, .row_length = size.row_length, .doc_start = doc_start_.data()};
    }

    void operator()(Stream& stream) {
        const OpCall call{.spec = &spec_,
                          .size = &size_,
                          .batch = &batch_,
                          .in = in_,
                          .out = out_,
                          .saved = saved_,
                          .weights = weights_,
                          .scratch = scratch_.span()};
        op_.on(stream.device()).forward(call, stream);
    }
    double flops() const { return op_.cost(spec_, size_, Direction::forward).flops; }

  private:
    Tensor tensor(const Shape& shape, ValueType type) {
        const DType dtype = dtype_of(type, size_.compute);
        Tensor view(dtype, shape, nullptr);
        buffers_.emplace_back(view.bytes(), true);
        fill(buffers_.back(), dtype);
        view.data = buffers_.back().data();
        return view;
    }

    const OpRecord& op_;
    OpSpec spec_;
    OpSize size_;
    std::vector<HugeBuffer> buffers_;
    std::vector<Tensor> in_, out_, saved_;
    std::vector<Weight> weights_;
    HugeBuffer scratch_;
    std::vector<int32_t> doc_start_;
    Batch batch_;
};

double attention_rate(DType dtype, Stream& stream) {
    constexpr int64_t kHeads = 8, kHeadSize = 64;
    const OpSize size{.rows = 2, .row_length = 1024, .compute = dtype, .threads = cpu_team(stream).size()};
    const int64_t cols = kHeads * kHeadSize;
    ForwardCall call(kAttention,
                     {.attrs = AttentionAttrs{kHeads, kHeads, kHeadSize, 0.125}, .in = {{cols}, {cols}, {cols}}}, size);
    return rounded(call.flops() / best_seconds([&] { call(stream); }));
}

// What a call costs that computes next to nothing: the mean over a block's usual kinds of kernels.
double call_seconds(Stream& stream) {
    constexpr int64_t kCols = 16, kRepeats = 50;
    const OpSize size{.rows = 1, .row_length = 16, .compute = DType::f32, .threads = cpu_team(stream).size()};
    std::vector<ForwardCall> calls;
    calls.reserve(4);
    calls.emplace_back(kRmsNorm, OpSpec{.attrs = RmsNormAttrs{}, .in = {{kCols}}, .weights = {{kCols}}}, size);
    calls.emplace_back(kLinear, OpSpec{.attrs = LinearAttrs{}, .in = {{kCols}}, .weights = {{kCols, kCols}}}, size);
    calls.emplace_back(kSwiglu, OpSpec{.in = {{kCols}, {kCols}}}, size);
    calls.emplace_back(kAdd, OpSpec{.in = {{kCols}, {kCols}}}, size);
    const double seconds = best_seconds([&] {
        for (int64_t repeat = 0; repeat < kRepeats; ++repeat)
            for (ForwardCall& call : calls) call(stream);
    });
    return rounded(seconds / (kRepeats * static_cast<double>(calls.size())));
}

}  // namespace

void probe_products(Stream& stream, Machine& machine) {
    Team& team = cpu_team(stream);
    machine.gemm_bf16_flops = product_rate(DType::bf16, kLarge, team);
    machine.gemm_f32_flops = product_rate(DType::f32, kLarge, team);
    machine.narrow_bf16_flops = product_rate(DType::bf16, kNarrow, team);
    machine.narrow_f32_flops = product_rate(DType::f32, kNarrow, team);
    machine.attention_bf16_flops = attention_rate(DType::bf16, stream);
    machine.attention_f32_flops = attention_rate(DType::f32, stream);
    machine.kernel_seconds = call_seconds(stream);
}

}  // namespace windlass
