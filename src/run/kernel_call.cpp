#include "run/kernel_call.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"
#include "base/units.h"
#include "tensor/dtype.h"

namespace windlass {

void fill_randomly(HugeBuffer& buffer, DType dtype) {
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

KernelCall::KernelCall(const OpRecord& op, OpSpec spec, const OpSize& size, DiffMode mode, Stream& stream)
    : op_(op), spec_(std::move(spec)), size_(size), direction_(mode) {
    op_.infer(spec_);
    in_ = values(spec_.in);
    out_ = values(spec_.out);
    saved_ = values(spec_.saved);
    make_weights();
    if (mode == DiffMode::vjp) {
        grad_out_ = values(spec_.out);
        grad_in_ = values(spec_.in);
        add_to_grad_in_.assign(grad_in_.size(), 0);
    }
    if (mode == DiffMode::jvp) {
        tangent_in_ = values(spec_.in, size.k);
        tangent_out_ = values(spec_.out, size.k);
    }
    int64_t scratch = 0;
    for (const DiffMode each : {DiffMode::forward, mode})
        scratch = std::max(scratch, op_.scratch_bytes(spec_, size_, each));
    scratch_ = HugeBuffer(scratch, true);
    zeros_.resize(static_cast<size_t>(size.tokens()));
    batch_ = {.rows = size.rows,
              .sequence_length = size.sequence_length,
              .tokens = zeros_.data(),
              .positions = zeros_.data(),
              .doc_start = zeros_.data(),
              .targets = zeros_.data()};
    head_.loss_scale = 1.0 / static_cast<double>(size.tokens());
    if (mode == DiffMode::vjp) run(DiffMode::forward, stream);
}

void KernelCall::operator()(Stream& stream) {
    run(direction_, stream);
}

int64_t KernelCall::bytes() const {
    int64_t sum = 0;
    for (const HugeBuffer& buffer : buffers_) sum += buffer.size();
    return sum;
}

Tensor KernelCall::tensor(const Shape& shape, DType dtype) {
    Tensor view(dtype, shape, nullptr);
    buffers_.emplace_back(view.bytes(), true);
    fill_randomly(buffers_.back(), dtype);
    view.data = buffers_.back().data();
    return view;
}

std::vector<Tensor> KernelCall::values(const std::vector<ValueSpec>& specs, int copies) {
    std::vector<Tensor> list;
    for (const ValueSpec& value : specs)
        list.push_back(tensor({copies * size_.tokens(), value.cols}, dtype_of(value.type, size_.compute)));
    return list;
}

void KernelCall::make_directions(const Shape& shape, Weight& weight) {
    if (const int64_t rank = shape.rank() == 2 ? factor_rank(size_, shape) : 0; rank > 0) {
        weight.left = tensor({size_.k * rank, shape[0]}, DType::f32);
        weight.right = tensor({size_.k * rank, shape[1]}, DType::f32);
        return;
    }
    const Shape directions = shape.rank() == 2 ? Shape{size_.k * shape[0], shape[1]} : Shape{size_.k, shape[0]};
    weight.direction = tensor(directions, size_.compute);
}

void KernelCall::make_weights() {
    for (const Shape& shape : spec_.weights) {
        Weight weight{.base = tensor(shape, size_.compute)};
        if (direction_ == DiffMode::jvp) make_directions(shape, weight);
        weights_.push_back(weight);
        if (direction_ == DiffMode::vjp) sinks_.push_back({.target = tensor(shape, DType::f32), .first = true});
    }
}

void KernelCall::run(DiffMode mode, Stream& stream) {
    const OpCall call{.spec = &spec_,
                      .size = &size_,
                      .batch = &batch_,
                      .head = &head_,
                      .in = in_,
                      .out = out_,
                      .saved = saved_,
                      .weights = weights_,
                      .grad_out = grad_out_,
                      .grad_in = grad_in_,
                      .add_to_grad_in = add_to_grad_in_,
                      .sinks = sinks_,
                      .tangent_in = tangent_in_,
                      .tangent_out = tangent_out_,
                      .scratch = scratch_.span()};
    op_.on(stream.device()).of(mode)(call, stream);
}

}  // namespace windlass
