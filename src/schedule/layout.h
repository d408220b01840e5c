// layout.h: where parameters lie inside the buffers that hold many of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/math.h"
#include "format/store_map.h"
#include "method/norm.h"
#include "method/recipe.h"
#include "method/trained_model.h"
#include "schedule/schedule.h"

namespace windlass {

// Starts of parameters in memory are multiples of this, so that a direct transfer can begin and end there.
inline constexpr int64_t kParamAlignment = kDirectAlignment;

inline int64_t aligned_bytes(int64_t elements, int64_t bytes_per_element) {
    return round_up(elements * bytes_per_element, kParamAlignment);
}

// Bytes of `count` elements of the weights that are kept, from one that begins a chunk: of a split master, its high
// half.
inline int64_t weight_bytes(const Param& param, int64_t count) {
    return stored_bytes(param.storage.dtype, count);
}
inline int64_t aligned_weight_bytes(const Param& param, int64_t count) {
    return round_up(weight_bytes(param, count), kParamAlignment);
}

// Gradients lie chunk by chunk, whole blocks of the disk each: of the chunk that begins with this element, where it
// lies after the parameter's first one, and the bytes of a chunk and of a whole parameter.
int64_t gradient_offset(GradientFormat format, int64_t first);
int64_t gradient_chunk_bytes(GradientFormat format, int64_t count);
int64_t gradient_param_bytes(GradientFormat format, int64_t numel);
// The form in which a plan keeps the gradients of a block. Where each micro-batch goes all the way, sums wait in f32
// for the last of them, and are rounded in place.
GradientFormat held_format(const Numerics& numerics, const Plan& plan, const BlockPlan& block);

// Of ParamPlace::squares.
inline int64_t squares_bytes(int64_t numel) {
    return div_up(numel, kNormChunkElements) * static_cast<int64_t>(sizeof(double));
}

// The parameters in a store, in order: all of them in a working store (2 versions), those that change in a snapshot
// (1 version). The others are the base's.
std::vector<int> stored_params(const TrainedModel& model, int versions);
// A store of these: weights, low halves and state, chunk by chunk.
StoreLayout store_layout(const TrainedModel& model, const Recipe& recipe, int versions, std::string meta);
// Bytes of the file of a working store, at most: with room for what the run says of itself in it.
int64_t working_store_bytes(const TrainedModel& model, const Recipe& recipe);

// The order of parameters in the working store and of their updates: by home block, then canonical.
std::vector<int> store_order(const ModelSpec& model);

// A piece of the update: up to kChunkElements of one parameter. In schedules that are weighed and never run,
// neighbours are one span; their bytes are those of its chunks.
struct ChunkSpan {
    int param = 0;
    int64_t first = 0;
    int64_t count = 0;
};
std::vector<ChunkSpan> chunks_of(const ModelSpec& model, int param);
inline int64_t chunks_in(int64_t count) {
    return std::max<int64_t>(1, div_up(count, kChunkElements));
}

// Chunks that are updated as one: of the trained parameters at home in a block, in the order of the store.
using ChunkGroup = std::vector<ChunkSpan>;
// `joined`: neighbours in a group are one span.
std::vector<ChunkGroup> chunk_groups(const TrainedModel& model, const Recipe& recipe, const Plan& plan, int block,
                                     bool joined = false);
// Whether the device updates this group of this block, if its state is next to the device.
bool visits_device(const Plan& plan, int block, size_t group);

// Sections of the state on disk of a chunk that begins with this element of a parameter, in order: low halves (nothing
// if masters are not split), then the recipe's state, which a frozen parameter does not have. Offsets
// are those of the store (each section padded to 64 bytes); the last entry is the end.
std::vector<int64_t> state_sections(const Recipe& recipe, const Param& param, int64_t first, int64_t count);
// The bytes of one of them.
int64_t low_section_bytes(const Param& param, int64_t count);
int64_t state_section_bytes(const StateSpec& state, const Param& param, int64_t first, int64_t count);

// Bytes of a chunk's state, whole blocks of the disk; and where the chunk that begins with this element of a parameter
// lies after the parameter's first one, where all are kept so.
int64_t state_block_bytes(const Recipe& recipe, const Param& param, int64_t first, int64_t count);
int64_t state_block_offset(const Recipe& recipe, const Param& param, int64_t first);

// A chunk as it is kept for a wrong guess: its weights, whole blocks of the disk, then its state as the store has it.
// Bytes, and where the chunk that begins with this element lies after the parameter's first one.
int64_t kept_bytes(const Recipe& recipe, const Param& param, int64_t first, int64_t count);
int64_t kept_offset(const Recipe& recipe, const Param& param, int64_t first);

}  // namespace windlass
