#include <gtest/gtest.h>

#include <cstring>

#include "tests/agree/trial.h"

namespace windlass::agree {
namespace {

Stream& stream_of(DeviceKind device, int threads) {
    static std::map<std::pair<DeviceKind, int>, std::unique_ptr<Stream>> streams;
    std::unique_ptr<Stream>& stream = streams[{device, threads}];
    if (stream == nullptr) stream = make_device({device})->make_stream(threads);
    return *stream;
}

// The tensors of values, without their data where they are not given.
std::vector<Tensor> tensors(const std::vector<Value>& values, bool given = true) {
    std::vector<Tensor> list;
    for (const Value& value : values) {
        list.push_back(value.tensor());
        if (!given) list.back().data = nullptr;
    }
    return list;
}

// Of a value in memory, gaps included.
int64_t bytes_of(const Tensor& tensor) {
    return tensor.rows() * tensor.row_stride * dtype_bytes(tensor.dtype);
}

// Item `item` of directions [begin, begin + count), one below another: [k * T, C], or [k, C] of vectors.
Value stacked(const std::vector<std::vector<Value>>& directions, size_t item, int begin, int count) {
    const Tensor& one = directions[0][item].tensor();
    const bool vector = one.shape.rank() == 1;
    const Shape shape = vector ? Shape{count, one.shape[0]} : Shape{count * one.rows(), one.shape[1]};
    Value all(one.dtype, shape, vector ? 0 : one.row_stride - one.cols());
    for (int d = 0; d < count; ++d) {
        const Tensor& part = directions[static_cast<size_t>(begin + d)][item].tensor();
        std::memcpy(all.tensor().as<std::byte>() + d * bytes_of(part), part.data, static_cast<size_t>(bytes_of(part)));
    }
    return all;
}

void expect_intact(const std::vector<Value>& values, std::string_view what) {
    for (size_t i = 0; i < values.size(); ++i)
        EXPECT_TRUE(values[i].intact()) << "written outside " << what << " " << i;
}

}  // namespace

OpSize Trial::size(int threads, int k) const {
    return {.rows = batch_.rows,
            .sequence_length = batch_.sequence_length,
            .device = device_,
            .compute = compute_,
            .split_weights = split_,
            .k = k,
            .rank = rank_,
            .threads = threads};
}

std::vector<Weight> Trial::weights() const {
    std::vector<Weight> list;
    for (size_t i = 0; i < base_.size(); ++i) {
        list.push_back({.base = base_[i].tensor(), .low = split_ ? low_[i].tensor() : Tensor{}});
    }
    return list;
}

void Trial::run(OpCall& call, DiffMode mode) const {
    const int64_t bytes = op_->scratch_bytes(spec_, *call.size, mode);
    Guarded scratch(bytes);
    call.spec = &spec_;
    call.batch = &batch_;
    call.head = &head_;
    call.scratch = {scratch.data(), scratch.size()};
    Stream& stream = stream_of(device_, call.size->threads);
    const Kernel kernel = op_->on(device_).of(mode);
    ASSERT_NE(kernel, nullptr) << "no kernel";
    stream.launch([&](const Launch& launch) { kernel(call, launch.stream()); });
    stream.synchronize();
    EXPECT_TRUE(scratch.intact()) << "written outside " << bytes << " bytes of scratch";
}

ForwardResult Trial::forward(int threads) const {
    ForwardResult result{values(spec_.out, gap_), values(spec_.saved, 0)};
    const OpSize call_size = size(threads, 1);
    const std::vector<Tensor> in = tensors(in_), out = tensors(result.out), saved = tensors(result.saved);
    const std::vector<Weight> given = weights();
    OpCall call{.size = &call_size, .in = in, .out = out, .saved = saved, .weights = given};
    run(call, DiffMode::forward);
    expect_intact(result.out, "out");
    expect_intact(result.saved, "saved");
    return result;
}

BackwardResult Trial::backward(const ForwardResult& kept, int threads, BackwardMode mode) const {
    BackwardResult result{.grad_in = values(spec_.in, gap_)};
    std::vector<GradientSink> sinks;
    for (size_t i = 0; i < spec_.weights.size(); ++i) {
        if (i >= op_->first_constant_weight) {
            sinks.emplace_back();
            continue;
        }
        Value& target = result.grad_weights.emplace_back(DType::f32, spec_.weights[i]);
        if (mode.accumulate) target.set(prior_weights_[i].matrix());
        sinks.push_back({target.tensor(), !mode.accumulate});
    }
    for (size_t i = 0; mode.add_to_grad_in && i < prior_in_.size(); ++i) result.grad_in[i].set(prior_in_[i].matrix());
    if (op_->backward_computes_out) result.out = values(spec_.out, gap_);
    const OpSize call_size = size(threads, 1);
    const bool computes_out = op_->backward_computes_out;
    const std::vector<Tensor> in = tensors(in_, op_->reads.in), saved = tensors(kept.saved),
                              out = computes_out ? tensors(result.out) : tensors(kept.out, op_->reads.out),
                              grad_out = tensors(grad_out_, !computes_out), grad_in = tensors(result.grad_in);
    const std::vector<uint8_t> add(spec_.in.size(), mode.add_to_grad_in ? 1 : 0);
    const std::vector<Weight> given = weights();
    OpCall call{.size = &call_size,
                .in = in,
                .out = out,
                .saved = saved,
                .weights = given,
                .grad_out = grad_out,
                .grad_in = grad_in,
                .add_to_grad_in = add,
                .sinks = sinks};
    run(call, DiffMode::vjp);
    expect_intact(result.grad_in, "grad_in");
    expect_intact(result.grad_weights, "the target");
    expect_intact(result.out, "out");
    return result;
}

std::vector<Value> Trial::tangent(const ForwardResult& kept, int threads, int begin, int count) const {
    std::vector<Value> stacked_in, stacked_directions;
    for (size_t i = 0; i < in_.size(); ++i) stacked_in.push_back(stacked(tangent_in_, i, begin, count));
    std::vector<Weight> given = weights();
    const OpSize call_size = size(threads, count);
    const auto stack = [&](const std::vector<std::vector<Value>>& directions, size_t weight) {
        return stacked_directions.emplace_back(stacked(directions, weight, begin, count)).tensor();
    };
    for (size_t i = 0; i < std::min(given.size(), op_->first_constant_weight); ++i) {
        const bool has_factors = factor_rank(call_size, spec_.weights[i]) > 0;
        if (has_factors) given[i].left = stack(left_, i);
        if (has_factors) given[i].right = stack(right_, i);
        if (!has_factors) given[i].direction = stack(direction_, i);
    }
    const Tensor& out_one = kept.out[0].tensor();
    std::vector<Value> result;
    const Value all(out_one.dtype, {count * out_one.rows(), out_one.shape[1]}, gap_);
    const std::vector<Tensor> in = tensors(in_), out = tensors(kept.out), saved = tensors(kept.saved),
                              tangent_in = tensors(stacked_in), tangent_out = {all.tensor()};
    OpCall call{.size = &call_size,
                .in = in,
                .out = out,
                .saved = saved,
                .weights = given,
                .tangent_in = tangent_in,
                .tangent_out = tangent_out};
    run(call, DiffMode::jvp);
    EXPECT_TRUE(all.intact()) << "written outside tangent_out";
    for (int d = 0; d < count; ++d) {
        const Tensor& one = result.emplace_back(out_one.dtype, out_one.shape, gap_).tensor();
        std::memcpy(one.data, all.tensor().as<std::byte>() + d * bytes_of(one), static_cast<size_t>(bytes_of(one)));
    }
    return result;
}

}  // namespace windlass::agree
