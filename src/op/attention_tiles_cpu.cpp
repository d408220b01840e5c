#include "base/math.h"
#include "op/attention_faults.h"
#include "op/attention_tiles.h"
#include "op/gemm.h"

namespace windlass {
namespace {

constexpr IsaKernel<const AttentionLoops> kAttentionLoops{&baseline::kAttentionLoops, &avx2::kAttentionLoops,
                                                          &avx512::kAttentionLoops};
constexpr int64_t kScoresOfTile = kQueryTile * kKeyTile;

template <typename Number>
Rows<Number> rows_of(const Tensor& value) {
    return {value.as<Number>(), value.shape[0], value.shape[1], value.row_stride};
}

// The weights of a tile of scores; the sums so far are brought under the new maxima.
template <typename Weight>
void update_softmax(const AttentionWeightLoops<Weight>& loops, const ScoreTile& scores, const Tensor& sums, bool first,
                    float* weights, RunningSoftmax* states) {
    std::array<float, kQueryTile> factors;
    loops.softmax(scores, states, factors.data(), reinterpret_cast<Weight*>(weights));
    for (int64_t i = 0; i < scores.rows && !first; ++i) {
        const float factor = factors[static_cast<size_t>(i)];
        if (factor != 1) attention_loops().scale(factor, sums.as<float>() + i * sums.row_stride, sums.cols());
    }
}

// scores = q k^T. A single query, as in decoding, is no product worth the library's while, and its keys would make a
// new shape with each token.
void score(const Tensor& q, const Tensor& k, const Tensor& scores) {
    if (q.rows() > 1) return gemm_single({.a = q, .b = k, .c = scores, .transpose_b = true});
    dot_rows(k, {q.dtype, k.shape, 0, q.data}, scores.as<float>());
}

// sums (+)= weights v; by_all: of the values, those that all queries see.
void mix(const Tensor& weights, const Tensor& v, const Tensor& sums, bool first, SeenRange by_all) {
    if (weights.rows() > 1) return mix_seen({.a = weights, .b = v, .c = sums, .accumulate = !first}, by_all);
    if (first) std::fill_n(sums.as<float>(), sums.cols(), 0.0f);
    if (v.dtype == DType::f32) {
        attention_loops().wide.mix(weights.as<float>(), rows_of<const float>(v), sums.as<float>());
    } else {
        attention_loops().narrow.mix(weights.as<uint16_t>(), rows_of<const uint16_t>(v), sums.as<float>());
    }
}

}  // namespace

const AttentionLoops& attention_loops() {
    return *kAttentionLoops.pick();
}

AttentionTiles::AttentionTiles(const OpCall& call)
    : attrs_(call.spec->get<AttentionAttrs>()), batch_(*call.batch), key_rows_(batch_.sequence_length) {}

int64_t AttentionTiles::query_tiles() const {
    return div_up(sequence_length(), kQueryTile);
}

QueryTile AttentionTiles::query_tile(int64_t row, int64_t head, int64_t index) const {
    QueryTile tile{.row = row, .head = head, .begin = index * kQueryTile};
    tile.count = std::min(kQueryTile, sequence_length() - tile.begin);
    tile.position = cached() + tile.begin;
    tile.keys_end = tile.position + tile.count;
    const int32_t* const doc_start = batch_.doc_start + row * sequence_length() + tile.begin;
    for (int64_t i = 0; i < tile.count; ++i) {
        const int64_t in_window = attrs_.window == 0 ? 0 : tile.position + i - attrs_.window + 1;
        tile.first_key[static_cast<size_t>(i)] = std::max<int64_t>(doc_start[i], in_window);
    }
    tile.keys_begin = round_down(tile.first_key[0], kKeyStep);
    return tile;
}

KeyTile AttentionTiles::key_tile(const QueryTile& tile, int64_t begin) const {
    return {begin, std::min(kKeyTile, tile.keys_end - begin)};
}

Tensor AttentionTiles::queries(const Tensor& value, const QueryTile& tile, int64_t first_row) const {
    return value.slice_rows(first_row + tile.row * sequence_length() + tile.begin, tile.count)
        .slice_cols(tile.head * attrs_.head_size, attrs_.head_size);
}

Tensor AttentionTiles::keys(const Tensor& value, int64_t row, int64_t key_head, KeyTile keys, int64_t first_row) const {
    return value.slice_rows(first_row + row * key_rows_ + keys.begin, keys.count)
        .slice_cols(key_head * attrs_.head_size, attrs_.head_size);
}

ForwardSpace::ForwardSpace(Scratch& scratch, int64_t head_size)
    : scores(scratch.floats(kScoresOfTile)),
      weights(scratch.floats(kScoresOfTile)),
      sums(scratch.floats(kQueryTile * head_size)) {}

int64_t ForwardSpace::bytes(int64_t head_size) {
    return 2 * float_bytes(kScoresOfTile) + float_bytes(kQueryTile * head_size);
}

BackwardSpace::BackwardSpace(Scratch& scratch, int64_t head_size, int64_t sequence_length)
    : scores(scratch.floats(kScoresOfTile)),
      dp(scratch.floats(kScoresOfTile)),
      p(scratch.floats(kScoresOfTile)),
      ds(scratch.floats(kScoresOfTile)),
      dq(scratch.floats(kQueryTile * head_size)),
      dk(scratch.floats(sequence_length * head_size)),
      dv(scratch.floats(sequence_length * head_size)) {}

int64_t BackwardSpace::bytes(int64_t head_size, int64_t sequence_length) {
    return 4 * float_bytes(kScoresOfTile) + float_bytes(kQueryTile * head_size) +
           2 * float_bytes(sequence_length * head_size);
}

TangentSpace::TangentSpace(Scratch& scratch, int64_t head_size)
    : forward(scratch, head_size),
      changes(scratch.floats(kScoresOfTile)),
      weight_changes(scratch.floats(kScoresOfTile)),
      sums(scratch.floats(kQueryTile * head_size)) {}

int64_t TangentSpace::bytes(int64_t head_size) {
    return ForwardSpace::bytes(head_size) + 2 * float_bytes(kScoresOfTile) + float_bytes(kQueryTile * head_size);
}

Scratch worker_scratch(const OpCall& call, int worker) {
    const size_t part = call.scratch.size() / static_cast<size_t>(call.size->threads);
    return Scratch(call.scratch.subspan(static_cast<size_t>(worker) * part, part));
}

Tensor tile_of(DType dtype, int64_t rows, int64_t cols, void* data) {
    return {dtype, {rows, cols}, round_up(cols, kScoreStep), data};
}

std::array<SeenRange, kQueryTile> seen_by_queries(const QueryTile& tile, KeyTile keys) {
    std::array<SeenRange, kQueryTile> seen;
    for (int64_t i = 0; i < tile.count; ++i) {
        const int64_t first = tile.first_key[static_cast<size_t>(i)] - keys.begin;
        const int64_t last = tile.position + i - keys.begin;
        seen[static_cast<size_t>(i)] = {static_cast<int32_t>(std::clamp<int64_t>(first, 0, keys.count)),
                                        static_cast<int32_t>(std::clamp<int64_t>(last + 1, 0, keys.count))};
    }
    return seen;
}

// A key is seen by the queries from its own position on, until the first whose keys begin after it.
std::array<SeenRange, kKeyTile> seeing_keys(const QueryTile& tile, KeyTile keys) {
    std::array<SeenRange, kKeyTile> seen;
    int64_t end = 0;
    for (int64_t j = 0; j < keys.count; ++j) {
        const int64_t key = keys.begin + j;
        while (end < tile.count && tile.first_key[static_cast<size_t>(end)] <= key) ++end;
        const int64_t begin = std::min(end, std::max<int64_t>(0, key - tile.position));
        seen[static_cast<size_t>(j)] = {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
    }
    return seen;
}

void cap_scores(const AttentionAttrs& attrs, const Tensor& scores) {
    if (attrs.softcap == 0) return;
    for (int64_t row = 0; row < scores.rows(); ++row)
        attention_loops().cap(static_cast<float>(attrs.scale), static_cast<float>(attrs.softcap),
                              scores.as<float>() + row * scores.row_stride, scores.cols());
}

SoftmaxTotals attend(const AttentionTiles& tiles, const QueryTile& tile, const Heads& heads,
                     const ForwardSpace& space) {
    const int64_t head_size = tiles.attrs().head_size, key_head = tiles.key_head_of(tile);
    const auto scale = static_cast<float>(tiles.attrs().scale), softcap = static_cast<float>(tiles.attrs().softcap);
    const Tensor q = tiles.queries(heads.q, tile);
    const Tensor sums(DType::f32, {tile.count, head_size}, space.sums);
    std::array<RunningSoftmax, kQueryTile> states;
    for (int64_t begin = tile.keys_begin; begin < tile.keys_end; begin += kKeyTile) {
        const KeyTile keys = tiles.key_tile(tile, begin);
        const bool first = begin == tile.keys_begin;
        const Tensor scores = tile_of(DType::f32, tile.count, keys.count, space.scores);
        score(q, tiles.keys(heads.k, tile.row, key_head, keys), scores);
        cap_scores(tiles.attrs(), scores);
        const auto seen = seen_by_queries(tile, keys);
        const ScoreTile score_tile{tile.count, scores.row_stride, scale, seen.data(), space.scores, softcap};
        if (q.dtype == DType::f32) {
            update_softmax(attention_loops().wide, score_tile, sums, first, space.weights, states.data());
        } else {
            update_softmax(attention_loops().narrow, score_tile, sums, first, space.weights, states.data());
        }
        mix(tile_of(q.dtype, tile.count, keys.count, space.weights), tiles.keys(heads.v, tile.row, key_head, keys),
            sums, first, seen_by_all(std::span(seen).first(static_cast<size_t>(tile.count))));
    }
    SoftmaxTotals totals;
    for (size_t i = 0; i < static_cast<size_t>(tile.count); ++i) {
        totals.factor[i] = 1 / states[i].sum;
        totals.log_sum[i] = states[i].max * (softcap == 0 ? scale : 1.0f) + std::log(states[i].sum);
    }
    return totals;
}

void write_rows(const Output& out, const float* numbers, const float* factors) {
    const Tensor& value = out.value;
    if (value.dtype == DType::f32) {
        attention_loops().wide.write_rows(numbers, factors, out.add, rows_of<float>(value));
    } else {
        attention_loops().narrow.write_rows(numbers, factors, out.add, rows_of<uint16_t>(value));
    }
}

void dot_rows(const Tensor& x, const Tensor& y, float* products) {
    if (x.dtype == DType::f32) {
        attention_loops().wide.dots(rows_of<const float>(x), rows_of<const float>(y), products);
    } else {
        attention_loops().narrow.dots(rows_of<const uint16_t>(x), rows_of<const uint16_t>(y), products);
    }
}

}  // namespace windlass
