#include <cstring>

#include "base/math.h"
#include "op/attention_tiles.h"

namespace windlass {
namespace {

// Appends this call's keys and values to the cache, after the tokens that each row has there.
void append(const OpCall& call, const Heads& heads, const AttentionTiles& tiles, Team& team) {
    const auto copy = [&](const Tensor& from, const Tensor& cache, int64_t row) {
        const int64_t capacity = cache.rows() / tiles.rows();
        const auto bytes = static_cast<size_t>(from.cols() * dtype_bytes(from.dtype));
        WINDLASS_CHECK(tiles.cached() + tiles.sequence_length() <= capacity && cache.dtype == from.dtype,
                       "{} tokens after {} in a cache for {}", tiles.sequence_length(), tiles.cached(), capacity);
        for (int64_t i = 0; i < tiles.sequence_length(); ++i) {
            const Tensor source = from.slice_rows(row * tiles.sequence_length() + i, 1);
            const Tensor target = cache.slice_rows(row * capacity + tiles.cached() + i, 1);
            std::memcpy(target.data, source.data, bytes);
        }
    };
    team.parallel_for(tiles.rows(), [&](int64_t row, int) {
        copy(heads.k, call.cache_keys, row);
        copy(heads.v, call.cache_values, row);
    });
}

void save_log_sums(const OpCall& call, const AttentionTiles& tiles, const QueryTile& tile,
                   const SoftmaxTotals& totals) {
    if (call.saved.empty() || call.saved[0].empty()) return;
    const Tensor& saved = call.saved[0];
    for (int64_t i = 0; i < tile.count; ++i) {
        const int64_t token = tile.row * tiles.sequence_length() + tile.begin + i;
        saved.as<float>()[token * saved.row_stride + tile.head] = totals.log_sum[static_cast<size_t>(i)];
    }
}

void attend_tiles(const OpCall& call, const AttentionTiles& tiles, const Heads& heads, Team& team) {
    const int64_t count = tiles.query_tiles();
    team.parallel_for(tiles.rows() * tiles.attrs().heads * count, [&](int64_t index, int worker) {
        Scratch scratch = worker_scratch(call, worker);
        const ForwardSpace space(scratch, tiles.attrs().head_size);
        const int64_t head = index / count % tiles.attrs().heads, row = index / count / tiles.attrs().heads;
        // The last tile of a row is the longest: it goes first.
        const QueryTile tile = tiles.query_tile(row, head, count - 1 - index % count);
        const SoftmaxTotals totals = attend(tiles, tile, heads, space);
        write_rows({tiles.queries(call.out[0], tile)}, space.sums, totals.factor.data());
        save_log_sums(call, tiles, tile, totals);
    });
}

}  // namespace

void attention_forward_cpu(const OpCall& call, Stream& stream) {
    Team& team = cpu_team(stream);
    AttentionTiles tiles(call);
    Heads heads = split_heads(call.in, tiles.attrs());
    if (!call.cache_keys.empty()) {
        append(call, heads, tiles, team);
        heads.k = call.cache_keys;
        heads.v = call.cache_values;
        tiles.set_key_rows(call.cache_keys.rows() / tiles.rows());
    }
    attend_tiles(call, tiles, heads, team);
}

}  // namespace windlass
