#include "schedule/layout.h"

#include <algorithm>
#include <numeric>

#include "schedule/numerics.h"

namespace windlass {
namespace {

// Sections of a chunk's state begin at cache lines.
int64_t section_bytes(int64_t bytes) {
    constexpr int64_t kSectionAlignment = 64;
    return round_up(bytes, kSectionAlignment);
}

int64_t low_bytes(const Param& param, int64_t count) {
    return param.storage.store == StoreType::split ? 2 * count : 0;
}

}  // namespace

std::vector<int> store_order(const ModelSpec& model) {
    std::vector<int> order(model.params.size());
    std::iota(order.begin(), order.end(), 0);
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

std::vector<int64_t> state_sections(const Recipe& recipe, const Param& param, int64_t count) {
    std::vector<int64_t> offsets;
    offsets.reserve(recipe.state.size() + 2);
    offsets.push_back(0);
    offsets.push_back(section_bytes(low_bytes(param, count)));
    for (const StateSpec& state : recipe.state)
        offsets.push_back(offsets.back() + (param.trains() ? section_bytes(state_bytes(state, count)) : 0));
    return offsets;
}

int64_t state_block_bytes(const Recipe& recipe, const Param& param, int64_t count) {
    int64_t end = section_bytes(low_bytes(param, count));
    for (const StateSpec& state : recipe.state) end += param.trains() ? section_bytes(state_bytes(state, count)) : 0;
    return round_up(end, kParamAlignment);
}

int64_t state_block_offset(const Recipe& recipe, const Param& param, int64_t first) {
    return div_exact(first, kChunkElements) * state_block_bytes(recipe, param, kChunkElements);
}

int64_t kept_bytes(const Recipe& recipe, const Param& param, int64_t count) {
    return aligned_weight_bytes(param, count) + state_block_bytes(recipe, param, count);
}

int64_t kept_offset(const Recipe& recipe, const Param& param, int64_t first) {
    return div_exact(first, kChunkElements) * kept_bytes(recipe, param, kChunkElements);
}

}  // namespace windlass
