// batch.h: the tokens of one micro-batch, and what the head is to say of them, as kernels see them.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace windlass {

// `rows` sequences of `sequence_length` tokens each, row after row: T = rows * sequence_length. Attention never crosses
// a row, nor a document inside a row. Padding is a document of its own whose targets are ignored.
struct Batch {
    int64_t rows = 0;
    int64_t sequence_length = 0;
    const int32_t* tokens = nullptr;     // [T]
    const int32_t* positions = nullptr;  // [T] position inside the document, restarting at 0
    const int32_t* doc_start = nullptr;  // [T] index inside the row of the first token of the token's document
    const int32_t* targets = nullptr;    // [T] id that the token should predict, kIgnored where there is none
    // Of pairs (ops.h, preference): the sum of the reference's token losses over each row. [rows], in the memory of the
    // host whatever the device: read where a call is issued.
    const double* references = nullptr;
    // Of pairs: the token of each row from which targets are the answer's, those before are its prompt's. [rows], in
    // the memory of the host too; null: all are the answer's.
    const int32_t* answers = nullptr;
    // Decoding: this many earlier tokens of each row are in the cache (OpCall::cache_*), 0 without one.
    int64_t cached = 0;
    // Decoding: as how long rows count where a document's length matters (ops.h, rope), if they are shorter so far.
    int64_t length_at_least = 0;

    int64_t count() const { return rows * sequence_length; }
};

inline constexpr int32_t kIgnored = -100;
inline constexpr int kDirectionsMax = 64;         // of one step
inline constexpr int64_t kDirectionRankMax = 64;  // of the factors that a matrix's direction may come as

// The head's result for each token that has a target, in a forward pass (ops.h).
// token_loss: the loss of each token, also if the head's loss is another function of them (ops.h, preference).
enum class HeadResult : uint8_t { loss, token_loss, is_wrong, argmax };

// What the head goes by besides its batch.
struct HeadParams {
    double loss_scale = 1;                 // 1 / (target tokens of the whole optimizer step)
    HeadResult result = HeadResult::loss;  // of forward passes
    int64_t id_count = 0;                  // HeadResult::argmax: ids from this on are never it
};

}  // namespace windlass
