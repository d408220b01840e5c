// What a lowering asks of its input.
#include "base/index.h"
#include "schedule/builder.h"

namespace windlass {

void LowerInput::list_chunks() {
    const int params = static_cast<int>(model.params.size());
    first_chunk.reserve(at(params) + 1);
    for (int param = 0; param < params; ++param) {
        first_chunk.push_back(static_cast<int>(all_chunks.size()));
        // Where some chunks visit the device, their gradients are in another buffer than those of their neighbours.
        if (joins_chunks && place(param).visits.empty()) {
            all_chunks.push_back({param, 0, model.params[at(param)].numel()});
        } else {
            const std::vector<ChunkSpan> chunks = chunks_of(model, param);
            all_chunks.insert(all_chunks.end(), chunks.begin(), chunks.end());
        }
    }
    first_chunk.push_back(static_cast<int>(all_chunks.size()));
}

std::vector<ChunkGroup> LowerInput::groups(int block) const {
    return chunk_groups(model, recipe, plan, block, joins_chunks);
}

bool LowerInput::visits(int param, int64_t first) const {
    const std::vector<uint8_t>& visits = place(param).visits;
    return !visits.empty() && visits[at(first / kChunkElements)] != 0;
}

BufferSlice LowerInput::gradient_behind(const BufferSlice& base, int param, int64_t first) const {
    const ParamPlace& of = place(param);
    int64_t before = first;
    // Chunks of the other side take no room on this one.
    for (int64_t chunk = 0; chunk < first && !of.visits.empty(); chunk += kChunkElements)
        before -= visits(param, chunk) != visits(param, first) ? kChunkElements : 0;
    return {base.buffer, base.offset + gradient_offset(of.gradient_format, before)};
}

BufferSlice LowerInput::held_gradient(int param, int64_t first) const {
    const ParamPlace& of = place(param);
    return gradient_behind(visits(param, first) ? of.visiting_gradient : of.gradient, param, first);
}

int64_t piece_bytes(const LowerInput& in, DiskPlace place, const ChunkSpan& chunk) {
    switch (place) {
        case DiskPlace::weight:
            return aligned_weight_bytes(in.param(chunk.param), chunk.count);
        case DiskPlace::low:
            return aligned_bytes(chunk.count, 2);
        case DiskPlace::state:
            return state_block_bytes(in.recipe, in.param(chunk.param), chunk.first, chunk.count);
        case DiskPlace::gradient:
            return gradient_chunk_bytes(in.place(chunk.param).gradient_format, chunk.count);
        case DiskPlace::activation:
            break;
    }
    WINDLASS_CHECK(false, "an activation is no piece of a parameter");
    return 0;
}

}  // namespace windlass
