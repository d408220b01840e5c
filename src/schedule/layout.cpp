#include "schedule/layout.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "format/store.h"
#include "schedule/numerics.h"
#include "schedule/store_room.h"
#include "tensor/nf4_levels.h"

namespace windlass {
namespace {

// Data position, schedule, the tail of the loss history: a few kilobytes; the store keeps room in two records.
constexpr int64_t kRunStateBytesMax = int64_t{1} << 20;

// Elements that a parameter's weights are kept in groups of.
int group_of(const Param& param) {
    return param.storage.dtype == DType::nf4 ? static_cast<int>(kNf4Block) : 1;
}
bool is_split(const Param& param) {
    return param.storage.store == StoreType::split;
}
int64_t own_bytes(const Recipe& recipe, const Param& param) {
    int64_t bytes = 0;
    for (const StateSpec& state : recipe.state)
        bytes += state.of == StatePer::elements ? 0 : state_section_bytes(state, param, 0, 0);
    return bytes;
}
int64_t element_sections(const Recipe& recipe) {
    return std::ranges::count(recipe.state, StatePer::elements, &StateSpec::of);
}
// What no step writes back.
bool is_only_read(const Param& param) {
    return !param.changes() || param.perturb.merge == Merge::never;
}
int group_bytes(const Param& param) {
    return static_cast<int>(weight_bytes(param, group_of(param)));
}

}  // namespace

std::vector<int> stored_params(const TrainedModel& model, int versions) {
    std::vector<int> params = store_order(model);
    if (versions == 1) std::erase_if(params, [&](int index) { return !model.param(index).changes(); });
    return params;
}

StoreLayout store_layout(const TrainedModel& model, const Recipe& recipe, int versions, std::string meta) {
    const std::vector<int> params = stored_params(model, versions);
    int widest = 1;
    bool has_low = false;
    for (const int index : params) {
        const Param param = model.param(index);
        // Types that are kept in groups have no bytes of a single element.
        if (group_of(param) == 1) widest = std::max(widest, group_bytes(param));
        has_low = has_low || is_split(param);
    }
    StoreLayout layout{.chunk_elements = kChunkElements,
                       .versions = versions,
                       .weight_bytes = widest,
                       .run_state_bytes_max = kRunStateBytesMax,
                       .meta = std::move(meta)};
    // A parameter has the first sections alone: low halves where its masters are split, state where it is trained.
    if (has_low) layout.sections.push_back({"low", 2});
    for (const StateSpec& state : recipe.state) {
        if (state.of != StatePer::elements) continue;
        layout.sections.push_back({state.name, state.bytes, state.per});
    }
    for (const int index : params) {
        const Param param = model.param(index);
        const int64_t of_elements = element_sections(recipe);
        WINDLASS_CHECK(!param.trains() || of_elements == 0 || is_split(param) == has_low,
                       "{} has state, but not the low halves before it", param.spec.name);
        const int64_t sections = (is_split(param) ? 1 : 0) + (param.trains() ? of_elements : 0);
        const int group = group_of(param), bytes = group_bytes(param);
        layout.params.push_back(
            {.name = param.spec.name,
             .numel = param.numel(),
             .sections = sections == std::ssize(layout.sections) ? StoreParam::kAllSections : sections,
             .weight_bytes = bytes == widest && group == 1 ? 0 : bytes,
             .weight_group = group,
             // A parameter that no step writes has one version: two would double the size of a frozen base.
             .once = versions > 1 && is_only_read(param),
             .own_bytes = own_bytes(recipe, param)});
    }
    return layout;
}

int64_t working_store_bytes(const TrainedModel& model, const Recipe& recipe) {
    return Store::file_bytes(store_layout(model, recipe, 2, "")) + kStoreMetaRoom;
}

std::vector<int> store_order(const ModelSpec& model) {
    std::vector<int> order(model.params.size());
    std::iota(order.begin(), order.end(), 0);
    // By home block, since updates go block by block: the chunks of a group are neighbours in the file.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return model.params[static_cast<size_t>(a)].block < model.params[static_cast<size_t>(b)].block;
    });
    return order;
}

std::vector<ChunkSpan> chunks_of(const ModelSpec& model, int param) {
    std::vector<ChunkSpan> chunks;
    const int64_t numel = model.params[static_cast<size_t>(param)].numel();
    chunks.reserve(static_cast<size_t>(div_up(numel, kChunkElements)));
    for (int64_t first = 0; first < numel; first += kChunkElements)
        chunks.push_back({param, first, std::min(kChunkElements, numel - first)});
    return chunks;
}

std::vector<ChunkGroup> chunk_groups(const TrainedModel& model, const Recipe& recipe, const Plan& plan, int block,
                                     bool joined) {
    std::vector<ChunkGroup> groups;
    const int64_t most = plan.group_chunks * kChunkElements;
    const bool takes_whole = recipe.updates_whole_parameters();
    int64_t elements = most;
    std::vector<int> params = model.blocks[at(block)].params;
    std::ranges::sort(params);  // a block's part of store_order
    params.erase(std::unique(params.begin(), params.end()), params.end());
    for (const int param : params) {
        if (model.param(param).spec.block != block || !model.param(param).trains()) continue;
        const int64_t numel = model.param(param).numel();
        bool begins = true;
        for (int64_t first = 0; first < numel; first += kChunkElements) {
            const ChunkSpan chunk{param, first, std::min(kChunkElements, numel - first)};
            // A kernel that takes whole parameters gets all chunks of one in a task: groups end between parameters, and
            // a large parameter exceeds the plan's size of a group.
            const int64_t next = takes_whole ? numel : chunk.count;
            const bool may_end = begins || !takes_whole;
            if (may_end && elements + next > most) groups.emplace_back(), elements = 0;
            ChunkGroup& group = groups.back();
            if (joined && !group.empty() && group.back().param == param)
                group.back().count += chunk.count;
            else
                group.push_back(chunk);
            elements += chunk.count;
            begins = false;
        }
    }
    return groups;
}

// Blocks of a single group take turns, too.
bool visits_device(const Plan& plan, int block, size_t group) {
    return plan.device_groups > 0 && (static_cast<size_t>(block) + group + 1) % at(plan.device_groups) == 0;
}

int64_t gradient_chunk_bytes(GradientFormat format, int64_t count) {
    // A joined span takes what its chunks take, each of them whole blocks: an estimate must find the bytes of the plan.
    if (count > kChunkElements) return gradient_param_bytes(format, count);
    return round_up(gradient_bytes(format, count), kParamAlignment);
}

int64_t gradient_offset(GradientFormat format, int64_t first) {
    return div_exact(first, kChunkElements) * gradient_chunk_bytes(format, kChunkElements);
}

int64_t gradient_param_bytes(GradientFormat format, int64_t numel) {
    const int64_t rest = numel % kChunkElements;
    return gradient_offset(format, numel - rest) + (rest > 0 ? gradient_chunk_bytes(format, rest) : 0);
}

GradientFormat held_format(const Numerics& numerics, const Plan& plan, const BlockPlan& block) {
    const bool stays = block.gradients == Home::device || (block.gradients == Home::host && !plan.own_memory());
    return stays && plan.order == MicroOrder::micro_batch_first ? GradientFormat::f32 : numerics.gradient_format;
}

int64_t low_section_bytes(const Param& param, int64_t count) {
    return is_split(param) ? section_bytes(2, 1, count) : 0;
}

int64_t state_section_bytes(const StateSpec& state, const Param& param, int64_t first, int64_t count) {
    if (!param.trains()) return 0;
    return section_bytes(1, 1, state_bytes(state, param.spec, first, count));
}

std::vector<int64_t> state_sections(const Recipe& recipe, const Param& param, int64_t first, int64_t count) {
    std::vector<int64_t> offsets;
    offsets.reserve(recipe.state.size() + 2);
    offsets.push_back(0);
    offsets.push_back(low_section_bytes(param, count));
    for (const StateSpec& state : recipe.state)
        offsets.push_back(offsets.back() + state_section_bytes(state, param, first, count));
    return offsets;
}

int64_t state_block_bytes(const Recipe& recipe, const Param& param, int64_t first, int64_t count) {
    if (count > kChunkElements) {
        const int64_t rest = count % kChunkElements, end = first + count - rest;
        return state_block_offset(recipe, param, end) - state_block_offset(recipe, param, first) +
               (rest > 0 ? state_block_bytes(recipe, param, end, rest) : 0);
    }
    int64_t end = low_section_bytes(param, count);
    for (const StateSpec& state : recipe.state) end += state_section_bytes(state, param, first, count);
    return round_up(end, kParamAlignment);
}

int64_t state_block_offset(const Recipe& recipe, const Param& param, int64_t first) {
    if (first == 0) return 0;
    // The first chunk is longer than the others by the state of the parameter's rows and columns.
    return state_block_bytes(recipe, param, 0, kChunkElements) +
           (div_exact(first, kChunkElements) - 1) * state_block_bytes(recipe, param, kChunkElements, kChunkElements);
}

int64_t kept_bytes(const Recipe& recipe, const Param& param, int64_t first, int64_t count) {
    return aligned_weight_bytes(param, count) + state_block_bytes(recipe, param, first, count);
}

int64_t kept_offset(const Recipe& recipe, const Param& param, int64_t first) {
    return div_exact(first, kChunkElements) * aligned_weight_bytes(param, kChunkElements) +
           state_block_offset(recipe, param, first);
}

}  // namespace windlass
