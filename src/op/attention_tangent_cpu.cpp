// The exact tangent of attention. With p = softmax(scale q k^T) and c = scale (dq k^T + q dk^T), which has the slope of
// the softcap as a factor where there is one:
//   dO = (p * (c - sum_keys p c)) v + p dv = (p * c) v + p dv - (sum_keys p c) O
#include "op/attention_faults.h"
#include "op/attention_tiles.h"
#include "op/gemm.h"

namespace windlass {
namespace {

class TangentPiece {
  public:
    TangentPiece(const OpCall& call, const AttentionTiles& tiles, const QueryTile& tile, Scratch scratch)
        : call_(call),
          tiles_(tiles),
          tile_(tile),
          head_size_(tiles.attrs().head_size),
          heads_(split_heads(call.in, tiles.attrs())),
          changes_(split_heads(call.tangent_in, tiles.attrs())),
          space_(scratch, head_size_) {}

    void run() {
        totals_ = attend(tiles_, tile_, heads_, space_.forward);
        for (int j = 0; j < call_.size->k; ++j) run_direction(j * tiles_.rows() * tiles_.sequence_length());
    }

  private:
    void run_direction(int64_t first_row) {
        mean_.fill(0);
        std::fill_n(space_.sums, tile_.count * head_size_, 0.0f);
        for (int64_t begin = tile_.keys_begin; begin < tile_.keys_end; begin += kKeyTile) {
            run_tile(tiles_.key_tile(tile_, begin), first_row);
        }
        for (int64_t i = 0; i < tile_.count; ++i) {
            const auto query = static_cast<size_t>(i);
            attention_loops().add_scaled(-mean_[query] * totals_.factor[query], space_.forward.sums + i * head_size_,
                                         space_.sums + i * head_size_, head_size_);
        }
        write_rows({tiles_.queries(call_.tangent_out[0], tile_, first_row)}, space_.sums);
    }

    void run_tile(KeyTile keys, int64_t first_row) {
        const Tensor q = tiles_.queries(heads_.q, tile_);
        const int64_t key_head = tiles_.key_head_of(tile_);
        const Tensor k = tiles_.keys(heads_.k, tile_.row, key_head, keys);
        const Tensor v = tiles_.keys(heads_.v, tile_.row, key_head, keys);
        const auto tile_at = [&](DType dtype, float* data) { return tile_of(dtype, tile_.count, keys.count, data); };
        const Tensor scores = tile_at(DType::f32, space_.forward.scores);
        gemm_single({.a = q, .b = k, .c = scores, .transpose_b = true});
        cap_scores(tiles_.attrs(), scores);
        change_scores(tile_at(DType::f32, space_.changes), q, k, keys, first_row);
        const Tensor p = tile_at(q.dtype, space_.forward.weights), dp = tile_at(q.dtype, space_.weight_changes);
        if (q.dtype == DType::f32) {
            weigh(attention_loops().wide, keys, p.row_stride);
        } else {
            weigh(attention_loops().narrow, keys, p.row_stride);
        }
        const Tensor sums(DType::f32, {tile_.count, head_size_}, space_.sums);
        const auto seen = seen_by_queries(tile_, keys);
        const SeenRange by_all = seen_by_all(std::span(seen).first(static_cast<size_t>(tile_.count)));
        mix_seen({.a = dp, .b = v, .c = sums, .accumulate = true}, by_all);
        if (changes_.v.empty()) return;
        mix_seen(
            {.a = p, .b = tiles_.keys(changes_.v, tile_.row, key_head, keys, first_row), .c = sums, .accumulate = true},
            by_all);
    }

    // dq k^T + q dk^T, where either may be missing.
    void change_scores(const Tensor& changes, const Tensor& q, const Tensor& k, KeyTile keys, int64_t first_row) {
        if (changes_.q.empty() && changes_.k.empty()) {
            std::fill_n(changes.as<float>(), changes.rows() * changes.row_stride, 0.0f);
            return;
        }
        if (!changes_.q.empty()) {
            gemm_single({.a = tiles_.queries(changes_.q, tile_, first_row), .b = k, .c = changes, .transpose_b = true});
        }
        if (changes_.k.empty()) return;
        gemm_single({.a = q,
                     .b = tiles_.keys(changes_.k, tile_.row, tiles_.key_head_of(tile_), keys, first_row),
                     .c = changes,
                     .transpose_b = true,
                     .accumulate = !changes_.q.empty()});
    }

    template <typename Weight>
    void weigh(const AttentionWeightLoops<Weight>& loops, KeyTile keys, int64_t stride) {
        const auto seen = seen_by_queries(tile_, keys);
        const auto scale = static_cast<float>(tiles_.attrs().scale),
                   softcap = static_cast<float>(tiles_.attrs().softcap);
        loops.tangent({tile_.count, stride, scale, seen.data(), space_.forward.scores, softcap}, space_.changes,
                      totals_.log_sum.data(), reinterpret_cast<Weight*>(space_.forward.weights),
                      reinterpret_cast<Weight*>(space_.weight_changes), mean_.data());
    }

    const OpCall& call_;
    const AttentionTiles& tiles_;
    const QueryTile& tile_;
    int64_t head_size_;
    Heads heads_, changes_;
    TangentSpace space_;
    SoftmaxTotals totals_;
    std::array<float, kQueryTile> mean_;  // sum_keys p c
};

}  // namespace

void attention_tangent_cpu(const OpCall& call, Stream& stream) {
    const AttentionTiles tiles(call);
    const int64_t count = tiles.query_tiles(), heads = tiles.attrs().heads;
    cpu_team(stream).parallel_for(tiles.rows() * heads * count, [&](int64_t index, int worker) {
        const QueryTile tile =
            tiles.query_tile(index / count / heads, index / count % heads, count - 1 - index % count);
        TangentPiece(call, tiles, tile, worker_scratch(call, worker)).run();
    });
}

}  // namespace windlass
