// attention_tiles.h: how attention is cut into tiles, and the tile kernels that its directions share.
//
// Queries are cut into tiles of 128 of one head, keys into tiles of 512, by shape alone. A tile of scores and
// what is made of it stay in the second-level cache; tiles that are wholly masked are never visited.
// Rows of documents: doc_start does not fall along a row, so the keys that a query sees begin no earlier than those
// of the query before it.
#pragma once

#include <array>
#include <span>

#include "op/attention.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {

inline constexpr int64_t kQueryTile = 128;
inline constexpr int64_t kKeyTile = 512;
inline constexpr int64_t kKeyStep = 64;  // key tiles begin on multiples of this: few shapes of products

// Queries, keys and values: q [T, H*D], k [T, K*D], v [T, K*D].
struct Heads {
    Tensor q, k, v;
};
// Of three values, or of one packed value by its columns; empty ones stay empty.
inline Heads split_heads(std::span<const Tensor> values, const AttentionAttrs& attrs) {
    if (values.size() == 3) return {values[0], values[1], values[2]};
    const int64_t queries = attrs.heads * attrs.head_size, keys = attrs.key_heads * attrs.head_size;
    const Tensor& all = values[0];
    if (all.empty()) return {};
    return {all.slice_cols(0, queries), all.slice_cols(queries, keys), all.slice_cols(queries + keys, keys)};
}

// Rows of one query head and the keys that they see, as indices into the row of the batch, cached tokens first.
struct QueryTile {
    int64_t row = 0, head = 0;
    int64_t begin = 0, count = 0;                 // among the row's new tokens
    int64_t position = 0;                         // of the first query among the row's keys
    int64_t keys_begin = 0, keys_end = 0;         // some query sees each of these (down to a multiple of kKeyStep)
    std::array<int64_t, kQueryTile> first_key{};  // that each query sees
};

struct KeyTile {
    int64_t begin = 0, count = 0;
};

// Which of some keys each query of a tile sees, and which queries see each key.
std::array<SeenRange, kQueryTile> seen_by_queries(const QueryTile& tile, KeyTile keys);
std::array<SeenRange, kKeyTile> seeing_keys(const QueryTile& tile, KeyTile keys);

class AttentionTiles {
  public:
    explicit AttentionTiles(const OpCall& call);

    const AttentionAttrs& attrs() const { return attrs_; }
    int64_t group() const { return attrs_.heads / attrs_.key_heads; }  // query heads per key head
    int64_t rows() const { return batch_.rows; }
    int64_t sequence_length() const { return batch_.sequence_length; }
    int64_t cached() const { return batch_.cached; }
    int64_t query_tiles() const;  // of one row and head
    QueryTile query_tile(int64_t row, int64_t head, int64_t index) const;
    KeyTile key_tile(const QueryTile& tile, int64_t begin) const;

    // The columns of a query head in a tile's rows of [T, H*D], from row `first_row` on: [count, D].
    Tensor queries(const Tensor& value, const QueryTile& tile, int64_t first_row = 0) const;
    // The columns of a key head in a row's tokens [begin, begin + count) of [T, K*D].
    Tensor keys(const Tensor& value, int64_t row, int64_t key_head, KeyTile keys, int64_t first_row = 0) const;
    int64_t key_head_of(const QueryTile& tile) const { return tile.head / group(); }
    // Rows of a key matrix from one row of the batch to the next: its length, or the cache's capacity.
    void set_key_rows(int64_t rows) { key_rows_ = rows; }

  private:
    const AttentionAttrs& attrs_;
    const Batch& batch_;
    int64_t key_rows_;
};

// What one worker needs: tiles that hold numbers of the computation's type have room for f32.
struct ForwardSpace {
    float* scores;  // [queries, keys]
    float* weights;
    float* sums;  // [queries, D]
    ForwardSpace(Scratch& scratch, int64_t head_size);
    static int64_t bytes(int64_t head_size);
};

// Backward holds a tile by keys ([keys, queries]): its products are then plain ones, but for dq.
struct BackwardSpace {
    float* scores;
    float* dp;
    float* p;
    float* ds;
    float* dq;       // [queries, D]
    float *dk, *dv;  // [row length, D]
    BackwardSpace(Scratch& scratch, int64_t head_size, int64_t sequence_length);
    static int64_t bytes(int64_t head_size, int64_t sequence_length);
};

struct TangentSpace {
    ForwardSpace forward;
    float* changes;  // of the scores
    float* weight_changes;
    float* sums;  // [queries, D]
    TangentSpace(Scratch& scratch, int64_t head_size);
    static int64_t bytes(int64_t head_size);
};

// A worker's part of a call's scratch.
Scratch worker_scratch(const OpCall& call, int worker);

// What a tile's softmax comes to, by queries: the log-sum-exp of scaled scores, and 1 / the sum that scales `sums`.
struct SoftmaxTotals {
    std::array<float, kQueryTile> log_sum, factor;
};

// space.sums * factor = softmax(scale q k^T) v for a tile.
SoftmaxTotals attend(const AttentionTiles& tiles, const QueryTile& tile, const Heads& heads, const ForwardSpace& space);

const AttentionLoops& attention_loops();

// Tiles of scores and weights: `rows` by `cols` numbers, rows a multiple of kScoreStep apart.
Tensor tile_of(DType dtype, int64_t rows, int64_t cols, void* data);

// Products of queries and keys, in f32, take the softcap where there is one.
void cap_scores(const AttentionAttrs& attrs, const Tensor& scores);

// out (+)= factors * numbers, rounded once; without factors they are one. numbers [rows, cols] in f32.
void write_rows(const Output& out, const float* numbers, const float* factors = nullptr);
// products [rows] of x's rows with y's, both of one type.
void dot_rows(const Tensor& x, const Tensor& y, float* products);

}  // namespace windlass
