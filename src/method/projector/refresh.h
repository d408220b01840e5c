// refresh.h: one projected layer as a run keeps it: what S has learnt is written into W, P and Q are fitted to W's
// gradient, and S's moments are carried over. Where the fit is no better than what was there nothing changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "method/projector/projector.h"
#include "method/recipe.h"
#include "model/adapters/adapter.h"

namespace windlass {

// Bytes of memory that a refresh of the layer works in, and of traffic equivalent to its computation: a simulation
// derives its time from them.
int64_t refresh_work_bytes(const ProjectedLayer& layer, int threads);
int64_t refresh_traffic(const ProjectedLayer& layer, int iterations);

// A run of S's elements with its state.
struct RefreshChunk {
    int64_t first = 0, count = 0;
    int16_t* lo = nullptr;
    std::vector<std::byte*> state;
};

struct RefreshCall {
    Param weight, left, right, inner;
    const ProjectedLayer& layer;
    const Moments& moments;
    int iterations = 0;          // of learning, at most
    const StepParams& step;      // seed and number: what rounding is counted by
    int64_t weight_element = 0;  // of the first elements of W and S in the model (global_offsets)
    int64_t inner_element = 0;
    // As they are kept; of S the high halves.
    std::byte *weights = nullptr, *left_values = nullptr, *right_values = nullptr;
    uint16_t* inner_hi = nullptr;
    std::span<const RefreshChunk> chunks;          // all of S
    const float *fit = nullptr, *judge = nullptr;  // W's gradients, of different rows
    std::span<std::byte> work;                     // refresh_work_bytes
};
ProjectorRefit refresh_layer(const RefreshCall& call, Team& team);

}  // namespace windlass
