// batch.h: the tokens of one micro-batch and the parameters of one step, as kernels see them.
#pragma once

#include <array>
#include <cstdint>

#include "tensor/tensor.h"

namespace windlass {

// `rows` sequences of `row_length` tokens each, row after row: T = rows * row_length. Attention never crosses a
// row, nor a document inside a row. Padding is a document of its own whose targets are ignored.
struct Batch {
    int64_t rows = 0;
    int64_t row_length = 0;
    const int32_t* tokens = nullptr;     // [T]
    const int32_t* positions = nullptr;  // [T] position inside the document, restarting at 0
    const int32_t* doc_start = nullptr;  // [T] index inside the row of the first token of the token's document
    const int32_t* targets = nullptr;    // [T] id that the token should predict, kIgnored where there is none
    // Decoding: this many earlier tokens of each row are in the cache (OpCall::cache_*), 0 without one.
    int64_t cached = 0;

    int64_t count() const { return rows * row_length; }
};

inline constexpr int32_t kIgnored = -100;
inline constexpr int kDirectionsMax = 64;         // of one step
inline constexpr int64_t kDirectionRankMax = 64;  // of the factors that a matrix's direction may come as

// What the head says of each token that has a target, in a forward sweep (ops.h).
enum class HeadResult : uint8_t { loss, miss, likeliest };

// What changes from step to step; one buffer, so that a schedule can be replayed as it is.
struct StepParams {
    uint64_t seed = 0;
    int64_t step = 0;  // 1 for the first update
    double learning_rate = 0;
    double loss_scale = 1;            // 1 / (target tokens of the whole optimizer step)
    double clip_scale = 1;            // min(1, max_grad_norm / norm); written by the norm's reduction
    bool apply = true;                // false: the loss or the norm is not finite, the update is skipped
    std::array<double, 16> method{};  // what the method's update kernel wants, e.g. bias corrections
    // Of forward-only methods: what the step found along each of its directions, written when its losses are known.
    std::array<float, kDirectionsMax> scalars{};
    HeadResult head = HeadResult::loss;  // of forward sweeps
    int64_t id_count = 0;                // HeadResult::likeliest: ids from this on are never it
};

}  // namespace windlass
