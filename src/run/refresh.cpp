#include "run/refresh.h"

#include <algorithm>

#include "base/index.h"
#include "device/cpu/cpu_stream.h"
#include "method/projector/refresh.h"

namespace windlass {

RefreshedLayer refresh_layer(const RefreshTask& task, const EngineSetup& setup, std::span<const int64_t> elements,
                             const StepParams& step, const LaunchedMemory& memory) {
    const ProjectedLayer& layer = task.layer;
    // A parameter's weights are in one piece, where its first chunk begins.
    const auto weights_of = [&](int param) {
        return memory.address(std::ranges::find(task.chunks, param, &UpdateChunk::param)->hi);
    };
    std::vector<RefreshChunk> chunks;
    for (const UpdateChunk& chunk : task.chunks) {
        if (chunk.param != layer.inner) continue;
        RefreshChunk& made = chunks.emplace_back();
        made.first = chunk.first;
        made.count = chunk.count;
        made.lo = reinterpret_cast<int16_t*>(memory.address(chunk.lo));
        for (const BufferSlice& slice : chunk.state) made.state.push_back(memory.address(slice));
    }
    const auto work = static_cast<size_t>(refresh_work_bytes(layer, cpu_team(memory.stream()).size()));
    const RefreshCall call{.weight = setup.model.param(layer.weight),
                           .left = setup.model.param(layer.left),
                           .right = setup.model.param(layer.right),
                           .inner = setup.model.param(layer.inner),
                           .layer = layer,
                           .moments = setup.recipe.moments,
                           .iterations = task.iterations,
                           .step = step,
                           .weight_element = elements[at(layer.weight)],
                           .inner_element = elements[at(layer.inner)],
                           .weights = weights_of(layer.weight),
                           .left_values = weights_of(layer.left),
                           .right_values = weights_of(layer.right),
                           .inner_hi = reinterpret_cast<uint16_t*>(weights_of(layer.inner)),
                           .chunks = chunks,
                           .fit = reinterpret_cast<const float*>(memory.address(task.fit)),
                           .judge = reinterpret_cast<const float*>(memory.address(task.judge)),
                           .work = {memory.address(task.work), work}};
    return {layer.weight, refresh_layer(call, cpu_team(memory.stream()))};
}

}  // namespace windlass
