#include "schedule/lower.h"

#include <algorithm>
#include <functional>

#include "op/ops.h"
#include "schedule/builder.h"

namespace windlass {
namespace {

size_t at(int index) {
    return static_cast<size_t>(index);
}

// Offsets of all parameters in one buffer; returns its size.
int64_t place_params(const ModelSpec& model, const std::function<int64_t(const ParamSpec&)>& element_bytes,
                     std::vector<int64_t>& offsets) {
    offsets.assign(model.params.size(), 0);
    int64_t end = 0;
    for (const int param : store_order(model)) {
        offsets[at(param)] = end;
        end += aligned_bytes(model.params[at(param)].numel(), element_bytes(model.params[at(param)]));
    }
    return end;
}

class PersistentWriter {
  public:
    PersistentWriter(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan)
        : model_(model), recipe_(recipe), numerics_(numerics), plan_(plan) {}

    PersistentIds ids;
    std::vector<BufferSpec> buffers;

    void write(const std::vector<ScheduleRequest>& requests) {
        bool trains = false;
        int64_t cache_rows = 0;
        for (const ScheduleRequest& request : requests) {
            trains = trains || request.kind == ScheduleRequest::Kind::train;
            cache_rows = std::max(cache_rows, request.rows * request.cache_capacity);
        }
        const int64_t weight_total = place_params(model_, weight_bytes, ids.weight_offsets);
        const int64_t word_total = place_params(
            model_, [](const ParamSpec&) { return 4; }, ids.word_offsets);
        const bool joins = numerics_.compute == DType::f32;
        if (plan_.weights == Home::memory) ids.weights = add("weights", Owner::weights, weight_total);
        if (plan_.state == Home::memory && recipe_.store == StoreType::split && (trains || joins))
            ids.low = add("low halves", Owner::low_halves, weight_total);
        if (trains && plan_.state == Home::memory) write_state();
        if (trains && recipe_.on_gradient == GradientRule::accumulate && plan_.gradients == Home::memory)
            ids.gradients = add("gradients", Owner::gradients, word_total);
        if (cache_rows > 0) write_cache(cache_rows);
        write_staging();
    }

  private:
    BufferId add(std::string name, Owner owner, int64_t bytes) {
        buffers.push_back({.name = std::move(name), .owner = owner, .bytes = bytes});
        return static_cast<BufferId>(buffers.size()) - 1;
    }
    void write_state() {
        for (const StateSpec& state : recipe_.state) {
            int64_t bytes = 0;
            for (const ParamSpec& param : model_.params)
                bytes += aligned_bytes(state.elements(param), dtype_bytes(state.dtype));
            ids.state.push_back(add(state.name, Owner::state, bytes));
        }
    }
    // Loading, checkpoints and export pass through here, one chunk at a time: as fp32, as weights, as state.
    void write_staging() {
        int64_t count = 0;
        for (const ParamSpec& param : model_.params) count = std::max(count, std::min(kChunkElements, param.numel()));
        const int64_t state = state_sections(recipe_, count).back();
        ids.staging =
            add("chunk in transit", Owner::staging, 2 * aligned_bytes(count, 4) + round_up(state, kParamAlignment));
    }
    void write_cache(int64_t rows) {
        int64_t end = 0;
        for (const Block& block : model_.blocks) {
            ids.cache_offsets.push_back(end);
            end += 2 * aligned_bytes(rows * cache_columns(block), dtype_bytes(numerics_.compute));
        }
        ids.cache = add("key-value cache", Owner::cache, end);
        ids.cache_rows = rows;
    }

    const ModelSpec& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const Plan& plan_;
};

}  // namespace

int64_t cache_columns(const Block& block) {
    for (const Node& node : block.program->nodes) {
        if (node.op != &kAttention) continue;
        const auto& attention = node.spec.get<AttentionAttrs>();
        return attention.key_heads * attention.head_size;
    }
    return 0;
}

std::string schedule_name(const ScheduleRequest& request) {
    switch (request.kind) {
        case ScheduleRequest::Kind::train:
            return fmt::format("train/{}", request.row_length);
        case ScheduleRequest::Kind::eval:
            return fmt::format("eval/{}", request.row_length);
        case ScheduleRequest::Kind::decode:
            return fmt::format("decode/{}", request.row_length);
    }
    return "?";
}

ScheduleSet lower(const ModelSpec& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                  const std::vector<ScheduleRequest>& requests) {
    WINDLASS_CHECK(plan.weights == Home::memory || plan.state == Home::disk,
                   "weights on disk need their low halves there");
    PersistentWriter persistent(model, recipe, numerics, plan);
    persistent.write(requests);
    const LowerInput input{model, recipe, numerics, plan, persistent.ids, static_cast<int>(persistent.buffers.size())};
    ScheduleSet set;
    for (const ScheduleRequest& request : requests) {
        switch (request.kind) {
            case ScheduleRequest::Kind::train:
                set.schedules.push_back(lower_train(input, request));
                break;
            case ScheduleRequest::Kind::eval:
                set.schedules.push_back(lower_eval(input, request));
                break;
            case ScheduleRequest::Kind::decode:
                set.schedules.push_back(lower_decode(input, request));
                break;
        }
    }
    set.persistent = std::move(persistent.buffers);
    set.ids = std::move(persistent.ids);
    return set;
}

}  // namespace windlass
