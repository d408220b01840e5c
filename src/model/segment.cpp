#include "model/segment.h"

#include <algorithm>
#include <array>

#include "base/clock.h"

namespace windlass {
namespace {

constexpr std::array<std::string_view, kRegions> kRegionNames = {
    "-",           "input", "output",        "grad_output",   "grad_input", "saved", "saved_second",
    "saved_third", "work",  "tangent_input", "tangent_output"};

// The tensors of one call, bound to memory. Reused between calls, so that running allocates nothing in the end.
struct BoundCall {
    std::vector<Tensor> in, out, saved, grad_out, grad_in, tangent_in, tangent_out;
    std::vector<Weight> weights;
    std::vector<GradientSink> sinks;
};

void bind(const std::vector<Slot>& slots, const SegmentBinding& binding, int64_t tokens, std::vector<Tensor>& tensors) {
    tensors.clear();
    for (const Slot& slot : slots) {
        std::byte* base = binding.base[static_cast<size_t>(slot.region)];
        WINDLASS_CHECK(slot.region == Region::none || base != nullptr, "region {} is not bound",
                       kRegionNames[static_cast<size_t>(slot.region)]);
        void* data = slot.region == Region::none ? nullptr : base + slot.offset;
        tensors.emplace_back(slot.dtype, Shape{slot.k * tokens, slot.cols}, data);
    }
}

OpCall bind_call(const SegmentCall& call, const OpSize& size, const SegmentBinding& binding, BoundCall& bound) {
    const int64_t tokens = size.tokens();
    bind(call.in, binding, tokens, bound.in);
    bind(call.out, binding, tokens, bound.out);
    bind(call.saved, binding, tokens, bound.saved);
    bind(call.grad_out, binding, tokens, bound.grad_out);
    bind(call.grad_in, binding, tokens, bound.grad_in);
    bind(call.tangent_in, binding, tokens, bound.tangent_in);
    bind(call.tangent_out, binding, tokens, bound.tangent_out);
    bound.weights.clear();
    bound.sinks.clear();
    for (const int weight : call.node->weights) {
        bound.weights.push_back(binding.weights[static_cast<size_t>(weight)]);
        bound.sinks.push_back(binding.sinks.empty() ? GradientSink{} : binding.sinks[static_cast<size_t>(weight)]);
    }
    std::byte* const work = binding.base[static_cast<size_t>(Region::work)];
    return {.spec = &call.node->spec,
            .size = &size,
            .batch = binding.batch,
            .head = binding.head,
            .in = bound.in,
            .out = bound.out,
            .saved = bound.saved,
            .weights = bound.weights,
            .grad_out = bound.grad_out,
            .grad_in = bound.grad_in,
            .add_to_grad_in = call.add_to_grad_in,
            .sinks = bound.sinks,
            .tangent_in = bound.tangent_in,
            .tangent_out = bound.tangent_out,
            .cache_keys = binding.cache_keys,
            .cache_values = binding.cache_values,
            .scratch = {work + call.scratch_offset, static_cast<size_t>(call.scratch_bytes)}};
}

}  // namespace

std::string_view diff_mode_name(DiffMode mode) {
    switch (mode) {
        case DiffMode::forward:
            return "forward";
        case DiffMode::vjp:
            return "backward";
        case DiffMode::jvp:
            return "tangent";
    }
    return "?";
}

void run_segment(const Segment& segment, const SegmentBinding& binding, Stream& stream) {
    thread_local std::vector<BoundCall> bound;
    thread_local std::vector<OpCall> arguments;
    OpSize size = segment.size;
    if (binding.sequence_length > 0) size.sequence_length = std::min(size.sequence_length, binding.sequence_length);
    // What was asked of the stream before is not this segment's.
    if (binding.profile != nullptr && stream.runs_ahead()) stream.synchronize();
    for (size_t index = 0; index < segment.calls.size();) {
        const SegmentCall& call = segment.calls[index];
        const auto count = static_cast<size_t>(call.together);
        if (bound.size() < count) bound.resize(count);
        arguments.clear();
        for (size_t i = 0; i < count; ++i)
            arguments.push_back(bind_call(segment.calls[index + i], size, binding, bound[i]));
        const int64_t start = binding.profile != nullptr ? now_ns() : 0;
        const OpKernels& kernels = *call.node->op->on(stream.device()).kernels;
        if (count > 1 && kernels.together != nullptr) {
            kernels.together(arguments, stream);
        } else {
            const Kernel kernel = kernels.of(call.mode);
            for (const OpCall& each : arguments) kernel(each, stream);
        }
        if (binding.profile != nullptr) {
            if (stream.runs_ahead()) stream.synchronize();  // its kernels return before they are complete
            binding.profile->add(call.node->op->name, call.mode, now_ns() - start);
        }
        index += count;
    }
}

std::string Segment::to_string() const {
    std::string text = fmt::format("{}: {} x {} tokens\n", name, size.rows, size.sequence_length);
    const auto places = [](const std::vector<Slot>& slots) {
        std::string out;
        for (const Slot& slot : slots)
            out += fmt::format(" {}+{}", kRegionNames[static_cast<size_t>(slot.region)], slot.offset);
        return out;
    };
    for (const SegmentCall& call : calls) {
        text += fmt::format("  {} {}:", diff_mode_name(call.mode), call.node->op->name);
        if (call.mode == DiffMode::vjp) {
            text += fmt::format("{} ->{}\n", places(call.grad_out), places(call.grad_in));
        } else {
            text += fmt::format("{} ->{}\n", places(call.in), places(call.out));
        }
    }
    for (int region = 1; region < kRegions; ++region) {
        const int64_t size_bytes = bytes[static_cast<size_t>(region)];
        if (size_bytes > 0)
            text += fmt::format("  {}: {} bytes\n", kRegionNames[static_cast<size_t>(region)], size_bytes);
    }
    return text;
}

}  // namespace windlass
