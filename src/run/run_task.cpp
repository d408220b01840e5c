#include "run/run_task.h"

#include "base/index.h"
#include "schedule/lower.h"

namespace windlass {
namespace {

// k of them, one after the other: rows follow rows, and vectors are rows. Of factors the left ones come first.
void bind_direction(const OpSize& size, std::byte* numbers, const Shape& shape, Weight& weight) {
    if (const int64_t rank = factor_rank(size, shape); rank > 0) {
        weight.left = Tensor(DType::f32, {size.k * rank, shape[0]}, numbers);
        weight.right = Tensor(DType::f32, {size.k * rank, shape[1]}, numbers + weight.left.bytes());
        return;
    }
    const Shape all = shape.rank() == 2 ? Shape{size.k * shape[0], shape[1]} : Shape{size.k, shape.numel()};
    weight.direction = Tensor(size.compute, all, numbers);
}

void bind_cache(const RunTask& task, const RunContext& context, const LaunchedMemory& memory, const Block& block,
                SegmentBinding& binding) {
    if (task.cache_keys.buffer == kNoBuffer) return;
    const Shape shape{context.setup.schedules.ids.cache_rows, cache_columns(block)};
    const DType compute = context.schedule.size.compute;
    binding.cache_keys = Tensor(compute, shape, memory.address(task.cache_keys));
    binding.cache_values = Tensor(compute, shape, memory.address(task.cache_values));
}

// What is decoded may have fewer tokens than the schedule was made for: its rows then lie closer together.
void bind_row_length(const RunTask& task, const OpSize& whole, const Segment& segment, SegmentBinding& binding) {
    const int64_t length = binding.batch->sequence_length, most = whole.sequence_length;
    WINDLASS_CHECK(binding.batch->rows == whole.rows && (length == most || (length > 1 && length < most)),
                   "{} rows of {} tokens in a schedule for {} of {}", binding.batch->rows, length, whole.rows, most);
    binding.sequence_length = length;
    if (task.last_token_of < 0) return;
    const ValueSpec& value = segment.program->values[at(segment.program->inputs[0])].spec;
    const int64_t token_bytes = value.cols * dtype_bytes(dtype_of(value.type, segment.size.compute));
    binding.base[static_cast<size_t>(Region::input)] += ((task.last_token_of + 1) * length - 1) * token_bytes;
}

}  // namespace

void run_task(const RunTask& task, const RunContext& context, const LaunchedMemory& memory) {
    const ModelSpec& model = context.setup.model;
    const Block& block = at(task.block) < model.blocks.size() ? model.blocks[at(task.block)] : model.logits;
    const Segment& segment = context.schedule.segments[at(task.segment)];
    std::vector<Weight> weights;
    std::vector<GradientSink> sinks;
    for (size_t index = 0; index < block.params.size(); ++index) {
        const Shape& shape = block.program->weights[index].shape;
        Weight weight;
        const WeightUse& use = task.weights[index];
        weight.base = Tensor(use.type, shape, memory.address(use.data));
        if (use.low.buffer != kNoBuffer) weight.low = Tensor(DType::i16, shape, memory.address(use.low));
        std::byte* const direction = task.directions.empty() ? nullptr : memory.address(task.directions[index]);
        if (direction != nullptr) bind_direction(segment.size, direction, shape, weight);
        weights.push_back(weight);
        if (task.gradients.empty()) continue;
        GradientSink sink;
        if (std::byte* target = memory.address(task.gradients[index]); target != nullptr)
            sink = {Tensor(DType::f32, shape, target), task.first_gradient[index] != 0};
        sinks.push_back(sink);
    }
    SegmentBinding binding{.weights = weights,
                           .sinks = sinks,
                           .batch = &context.batch,
                           .head = &context.head,
                           .profile = context.setup.profile};
    for (size_t region = 0; region < task.regions.size(); ++region)
        binding.base[region] = memory.address(task.regions[region]);
    bind_cache(task, context, memory, block, binding);
    if (context.schedule.gives_logits) bind_row_length(task, context.schedule.size, segment, binding);
    run_segment(segment, binding, memory.stream());
}

}  // namespace windlass
