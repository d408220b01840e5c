// The backward pass of attention: probabilities are rebuilt from q, k and the saved log-sum-exp, tile by tile
// (Dao, "FlashAttention-2", 2023, algorithm 2). One piece of work is a row and a key head: it owns its dk and dv, and
// the query heads of its group add to them in ascending order.
#include <cstring>

#include "op/attention_faults.h"
#include "op/attention_tiles.h"
#include "op/gemm.h"

namespace windlass {
namespace {

class BackwardPiece {
  public:
    BackwardPiece(const OpCall& call, const AttentionTiles& tiles, int64_t row, int64_t key_head, Scratch scratch)
        : call_(call),
          tiles_(tiles),
          row_(row),
          key_head_(key_head),
          head_size_(tiles.attrs().head_size),
          heads_(split_heads(call.in, tiles.attrs())),
          space_(scratch, head_size_, tiles.sequence_length()) {}

    void run() {
        const auto bytes = static_cast<size_t>(tiles_.sequence_length() * head_size_) * sizeof(float);
        std::memset(space_.dk, 0, bytes);
        std::memset(space_.dv, 0, bytes);
        for (int64_t i = 0; i < tiles_.group(); ++i) {
            for (int64_t index = 0; index < tiles_.query_tiles(); ++index) {
                run_queries(tiles_.query_tile(row_, key_head_ * tiles_.group() + i, index));
            }
        }
        write_keys(1, space_.dk);
        write_keys(2, space_.dv);
    }

  private:
    // log_sum and delta = dO . O of each query.
    void read_queries(const QueryTile& tile) {
        dot_rows(tiles_.queries(call_.out[0], tile), tiles_.queries(call_.grad_out[0], tile), delta_.data());
        const Tensor& saved = call_.saved[0];
        for (int64_t i = 0; i < tile.count; ++i) {
            const int64_t token = row_ * tiles_.sequence_length() + tile.begin + i;
            log_sum_[static_cast<size_t>(i)] = saved.as<float>()[token * saved.row_stride + tile.head];
        }
    }

    void run_queries(const QueryTile& tile) {
        read_queries(tile);
        for (int64_t begin = tile.keys_begin; begin < tile.keys_end; begin += kKeyTile) {
            run_tile(tile, tiles_.key_tile(tile, begin));
        }
        const Output grad = grad_of(0);
        if (grad.value.empty()) return;
        write_rows({tiles_.queries(grad.value, tile), grad.add}, space_.dq);
    }

    // With a tile by keys: s = k q^T, dp = v dO^T, dv += p dO, dk += ds q, dq += ds^T k.
    void run_tile(const QueryTile& tile, KeyTile keys) {
        const Tensor q = tiles_.queries(heads_.q, tile), grad = tiles_.queries(call_.grad_out[0], tile);
        const Tensor k = tiles_.keys(heads_.k, row_, key_head_, keys), v = tiles_.keys(heads_.v, row_, key_head_, keys);
        const auto tile_at = [&](DType dtype, float* data) { return tile_of(dtype, keys.count, tile.count, data); };
        const Tensor scores = tile_at(DType::f32, space_.scores);
        gemm_single({.a = k, .b = q, .c = scores, .transpose_b = true});
        cap_scores(tiles_.attrs(), scores);
        gemm_single({.a = v, .b = grad, .c = tile_at(DType::f32, space_.dp), .transpose_b = true});
        const Tensor p = tile_at(q.dtype, space_.p), ds = tile_at(q.dtype, space_.ds);
        const auto seeing = seeing_keys(tile, keys);
        if (q.dtype == DType::f32) {
            weigh(attention_loops().wide, seeing.data(), keys, p.row_stride);
        } else {
            weigh(attention_loops().narrow, seeing.data(), keys, p.row_stride);
        }
        const SeenRange queries = seen_by_all(std::span(seeing).first(static_cast<size_t>(keys.count)));
        const auto seen = seen_by_queries(tile, keys);
        mix_seen({.a = p, .b = grad, .c = key_rows(space_.dv, keys), .accumulate = true}, queries);
        mix_seen({.a = ds, .b = q, .c = key_rows(space_.dk, keys), .accumulate = true}, queries);
        mix_seen({.a = ds,
                  .b = k,
                  .c = Tensor(DType::f32, {tile.count, head_size_}, space_.dq),
                  .transpose_a = true,
                  .accumulate = keys.begin > tile.keys_begin},
                 seen_by_all(std::span(seen).first(static_cast<size_t>(tile.count))));
    }

    template <typename Weight>
    void weigh(const AttentionWeightLoops<Weight>& loops, const SeenRange* seeing, KeyTile keys, int64_t stride) {
        const auto scale = static_cast<float>(tiles_.attrs().scale),
                   softcap = static_cast<float>(tiles_.attrs().softcap);
        loops.backward({keys.count, stride, scale, seeing, space_.scores, softcap}, space_.dp, log_sum_.data(),
                       delta_.data(), reinterpret_cast<Weight*>(space_.p), reinterpret_cast<Weight*>(space_.ds));
    }

    Tensor key_rows(float* rows, KeyTile keys) const {
        return {DType::f32, {keys.count, head_size_}, rows + keys.begin * head_size_};
    }

    // The gradient of queries (0), keys (1) or values (2), and whether it is added to.
    Output grad_of(int part) const {
        const Heads grads = split_heads(call_.grad_in, tiles_.attrs());
        const Tensor& value = part == 0 ? grads.q : part == 1 ? grads.k : grads.v;
        return {value, grad_output(call_, call_.grad_in.size() == 1 ? 0 : static_cast<size_t>(part)).add};
    }

    void write_keys(int part, const float* numbers) const {
        const Output grad = grad_of(part);
        if (grad.value.empty()) return;
        write_rows({tiles_.keys(grad.value, row_, key_head_, {0, tiles_.sequence_length()}), grad.add}, numbers);
    }

    const OpCall& call_;
    const AttentionTiles& tiles_;
    int64_t row_, key_head_, head_size_;
    Heads heads_;
    BackwardSpace space_;
    std::array<float, kQueryTile> log_sum_, delta_;
};

}  // namespace

void attention_backward_cpu(const OpCall& call, Stream& stream) {
    const AttentionTiles tiles(call);
    const int64_t key_heads = tiles.attrs().key_heads;
    cpu_team(stream).parallel_for(tiles.rows() * key_heads, [&](int64_t index, int worker) {
        BackwardPiece(call, tiles, index / key_heads, index % key_heads, worker_scratch(call, worker)).run();
    });
}

}  // namespace windlass
