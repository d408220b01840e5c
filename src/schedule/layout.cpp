#include "schedule/layout.h"

#include <algorithm>
#include <numeric>

#include "schedule/numerics.h"

namespace windlass {

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
    for (int64_t first = 0; first < numel; first += kChunkElements)
        chunks.push_back({param, first, std::min(kChunkElements, numel - first)});
    return chunks;
}

std::vector<int64_t> state_sections(const Recipe& recipe, int64_t count) {
    constexpr int64_t kSectionAlignment = 64;
    std::vector<int64_t> offsets = {0, round_up(count * int64_t{2}, kSectionAlignment)};
    for (const StateSpec& state : recipe.state)
        offsets.push_back(offsets.back() + round_up(count * dtype_bytes(state.dtype), kSectionAlignment));
    return offsets;
}

}  // namespace windlass
