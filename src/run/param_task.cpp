#include "run/param_task.h"

#include <algorithm>

#include "base/index.h"
#include "method/round_gradient.h"

namespace windlass {
namespace {

class ParamCalls {
  public:
    ParamCalls(const ParamTask& task, const ParamContext& context, const LaunchedMemory& memory)
        : task_(task), context_(context), memory_(memory), kernel_(*task.kernel) {
        // All chunks in one array: calls get spans of it, and a task makes no allocation for each chunk.
        states_.reserve(task.chunks.size() * context.setup.recipe.state.size());
        lows_.reserve(task.chunks.size());
        for (const ParamChunk& chunk : task.chunks) {
            for (const BufferSlice& slice : chunk.state) states_.push_back(at_slot(ParamSlot::state, slice));
            // Chunk by chunk: with a store each chunk's low halves are in a block of their own, even if a kernel takes
            // the whole parameter.
            lows_.push_back(reinterpret_cast<int16_t*>(at_slot(ParamSlot::low, chunk.low)));
        }
    }

    void run(std::vector<GroupReport>& reports) {
        if (task_.uses(ParamSlot::plain)) return run_on_arrival();
        if (kernel_.grain == Grain::group) return run_on_group(reports);
        if (const ParamsCell joined = kernel_.joined_cells[device()]; joined != nullptr && !widens())
            return joined(all_calls(), memory_.stream());
        for_each_call([this](const ParamCall& each) { call(each); });
    }

  private:
    // By the stream's device, not the plan's: updates next to a card run on the host's threads.
    size_t device() const { return static_cast<size_t>(memory_.stream().device()); }
    // Calls whose gradients are widened share the memory for that, one after the other.
    bool widens() const {
        return kernel_.use_of(ParamSlot::gradient) != nullptr &&
               std::ranges::any_of(task_.chunks,
                                   [](const ParamChunk& each) { return each.gradient_format != GradientFormat::f32; });
    }
    std::vector<ParamCall> all_calls() const {
        std::vector<ParamCall> calls;
        calls.reserve(task_.chunks.size());
        for_each_call([&](const ParamCall& each) { calls.push_back(each); });
        return calls;
    }
    template <typename Body>
    void for_each_call(Body body) const {
        size_t state = 0;
        for (size_t index = 0, count = 0; index < task_.chunks.size(); index += count) {
            count = kernel_.grain == Grain::chunk ? 1 : chunks_of_parameter(index);
            body(bind(index, count, state));
            for (size_t each = index; each < index + count; ++each) state += task_.chunks[each].state.size();
        }
    }

    // Null for what the kernel's record does not name: its task has not declared it.
    std::byte* at_slot(ParamSlot slot, const BufferSlice& slice) const {
        return kernel_.use_of(slot) == nullptr ? nullptr : memory_.address(slice);
    }
    template <typename Number>
    Number* numbers_at(ParamSlot slot, const BufferSlice& slice) const {
        return reinterpret_cast<Number*>(at_slot(slot, slice));
    }

    size_t chunks_of_parameter(size_t index) const {
        const auto rest = std::span(task_.chunks).subspan(index);
        const auto is_other = [&](const ParamChunk& each) { return each.param != rest[0].param; };
        return at(std::ranges::find_if(rest, is_other) - rest.begin());
    }

    // What the chunks from `index` on are, which are of one parameter; their state is from `state` on.
    ParamCall bind(size_t index, size_t count, size_t state) const {
        const ParamChunk &chunk = task_.chunks[index], &last = task_.chunks[index + count - 1];
        return {.param = context_.setup.model.param(chunk.param),
                .first = chunk.first,
                .element = context_.elements[at(chunk.param)] + chunk.first,
                .count = last.first + last.count - chunk.first,
                .hi = numbers_at<uint16_t>(ParamSlot::weights, chunk.weights),
                .lo = lows_[index],
                .state = std::span(states_).subspan(state, chunk.state.size()),
                .gradient = gradient_of(index, count),
                .step = &context_.step,
                .lows = std::span(lows_).subspan(index, count),
                .low_elements = kChunkElements,
                .states = std::span(states_).subspan(state, count * chunk.state.size()),
                .work = memory_.address(task_.work),
                .judge = numbers_at<float>(ParamSlot::judge, chunk.judge),
                .narrow = at_slot(ParamSlot::narrow, chunk.narrow),
                .format = context_.setup.numerics.gradient_format,
                .squares = numbers_at<double>(ParamSlot::squares, chunk.squares),
                .kept = at_slot(ParamSlot::kept, chunk.kept),
                .recipe = &context_.setup.recipe,
                .model = &context_.setup.model,
                .tuple = task_.tuple.get(),
                .iterations = task_.iterations};
    }

    // In f32: where it lies, or widened into what the task has for that, until the next call's is.
    float* gradient_of(size_t index, size_t count) const {
        const ParamChunk& first = task_.chunks[index];
        std::byte* const gradient = at_slot(ParamSlot::gradient, first.gradient);
        if (gradient == nullptr || first.gradient_format == GradientFormat::f32)
            return reinterpret_cast<float*>(gradient);
        auto* const wide = reinterpret_cast<float*>(memory_.address(task_.wide));
        for (const ParamChunk& chunk : std::span(task_.chunks).subspan(index, count))
            widen_gradient({.format = chunk.gradient_format,
                            .count = chunk.count,
                            .narrow = at_slot(ParamSlot::gradient, chunk.gradient),
                            .wide = wide + (chunk.first - first.first)},
                           memory_.stream());
        return wide;
    }

    void call(const ParamCall& call) const { kernel_.cells[device()](call, memory_.stream()); }

    void run_on_group(std::vector<GroupReport>& reports) {
        std::vector<ParamCall> group;
        size_t state = 0;
        for (size_t index = 0; index < task_.chunks.size(); ++index) {
            group.push_back(bind(index, 1, state));
            state += task_.chunks[index].state.size();
        }
        // The kernel finds every chunk of the group through its first call.
        ParamCall first = group.front();
        first.group = group;
        first.report = &reports.emplace_back();
        call(first);
    }

    int updates_due(const ParamChunk& chunk) const {
        const Applies applies = context_.writes_back ? chunk.writing_back : chunk.between;
        if (context_.recent == nullptr || applies == Applies::none) return 0;
        return applies == Applies::last ? context_.recent->deferred_in_place() : context_.recent->deferred();
    }

    void run_on_arrival() {
        for (size_t index = 0; index < task_.chunks.size(); ++index) {
            const ParamChunk& chunk = task_.chunks[index];
            const int due = updates_due(chunk);
            ParamCall bound = bind(index, 1, 0);
            const MaterializeCall arrival{.param = bound.param,
                                          .element = bound.element,
                                          .weights = bound.weights(),
                                          .steps = due > 0 ? context_.recent->steps() : std::span<const StepParams>(),
                                          .deferred = due,
                                          .merges = context_.writes_back,
                                          .sum = context_.sums[at(chunk.param)],
                                          .step = &context_.step,
                                          .pass = task_.pass,
                                          .point = task_.point,
                                          .compute = context_.compute,
                                          .plain = at_slot(ParamSlot::plain, chunk.plain),
                                          .probes = at_slot(ParamSlot::probes, chunk.probes)};
            // Runs read such a parameter where it lies.
            if (due == 0 && arrival.plain == nullptr && arrival.probes == nullptr) continue;
            bound.arrival = &arrival;
            call(bound);
        }
    }

    const ParamTask& task_;
    const ParamContext& context_;
    const LaunchedMemory& memory_;
    const ParamKernel& kernel_;
    std::vector<std::byte*> states_;  // of all chunks
    std::vector<int16_t*> lows_;      // by chunk
};

}  // namespace

void perform_param(const ParamTask& task, const ParamContext& context, const LaunchedMemory& memory,
                   std::vector<GroupReport>& reports) {
    ParamCalls(task, context, memory).run(reports);
}

}  // namespace windlass
