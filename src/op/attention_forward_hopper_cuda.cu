// Forward of attention on sm_90a. The mathematics: attention_softmax_plain_cuda.h.
//
// While a tile's scores are weighed, the weights of the tile before it are multiplied with its values; of the two
// groups one weighs while the other multiplies, which heads of 64 enforce by taking turns.
#include "op/attention_hopper_faults_cuda.h"

namespace windlass {
namespace attention_forward_hopper {

template <int kHead>
struct Tiles {
    static constexpr int kSize = kHead, kColumns = hopper_columns(kSize);
    static constexpr int kQueries = forward_tiles(kSize).own, kKeys = forward_tiles(kSize).others;
    static constexpr bool kTurns = kSize == 64;  // an H200 took 10 to 14 % less time with them, and more at 128
    using Q = HopperTile<kColumns, kQueries>;
    using K = HopperTile<kColumns, kKeys>;
    static constexpr int kTileBytes = Q::kBytes + 2 * kHopperStages * K::kBytes;
    static constexpr int kBytes = kTileBytes + static_cast<int>(sizeof(HopperFaults<K>));
    static constexpr unsigned kSharedBytes = hopper_shared_bytes(kBytes, 1 + 2 * HopperRing::kBarriers);
    static_assert(kSharedBytes <= kHopperSharedMax);
};

// Shared memory: queries, keys and values of each stage, faults of values, barriers.
template <typename T>
struct Stages {
    unsigned char* const q = hopper_shared();
    Barrier* const q_full = reinterpret_cast<Barrier*>(q + T::kBytes);
    HopperRing keys{q_full + 1}, values{q_full + 1 + HopperRing::kBarriers};

    __device__ unsigned char* k() const { return q + T::Q::kBytes + 2 * keys.stage * T::K::kBytes; }
    __device__ unsigned char* v() const { return q + T::Q::kBytes + (2 * values.stage + 1) * T::K::kBytes; }
    __device__ uint32_t* faults() const { return reinterpret_cast<uint32_t*>(q + T::kTileBytes); }
    __device__ void make() const {
        make_barrier(q_full, 1);
        keys.make(1);
        values.make(1);
        show_barriers();
    }
};

// The tiles of keys that a block's queries see, the last first.
struct Work {
    AttentionPlace place;
    int key_head, first, count;
};

template <typename T>
__device__ __forceinline__ void load(const AttentionHopperArgs& args, const Work& work, Stages<T> stages) {
    const int row = work.place.row;
    arrive_expecting(stages.q_full, T::Q::kBytes);
    T::Q::load(stages.q, &args.q, work.place.head, work.place.begin, row, stages.q_full);
    WINDLASS_LOOP
    for (int tile = work.count - 1; tile >= 0; --tile) {
        const int key = work.first + tile * T::kKeys;
        T::K::load(stages.k(), &args.k, work.key_head, key, row, stages.keys.fill(T::K::kBytes));
        stages.keys.next();
        T::K::load(stages.v(), &args.v, work.key_head, key, row, stages.values.fill(T::K::kBytes));
        stages.values.next();
    }
}

template <typename T, bool kCapped>
struct Group {
    static constexpr int kScores = T::kKeys / 2;
    const AttentionArgs& args;
    const Work work;
    Stages<T> stages;
    const HopperLane lane{};
    const int unseen;   // keys before it: by the block's last query
    const float scale;  // of powers of two
    float greatest[2] = {kNoScore, kNoScore}, total[2] = {}, factor[2] = {};
    float sums[T::kColumns / 2], scores[kScores];
    uint32_t weights[T::kKeys / 16][4];

    __device__ __forceinline__ Group(const AttentionArgs& given, const Work& of, const Stages<T>& at)
        : args(given),
          work(of),
          stages(at),
          unseen(unseen_by_last()),
          scale(exponent_scale<kCapped>(given) * kLog2OfE) {
        clear(sums);
    }

    __device__ __forceinline__ int first_query() const { return work.place.begin + lane.first_row(); }
    __device__ __forceinline__ int unseen_by_last() const {
        return first_key(args, work.place.row, work.place.begin + T::kQueries - 1);
    }
    // Whether some query of the block does not see some key of a tile.
    __device__ __forceinline__ bool is_masked(int tile) const {
        const int key = work.first + tile * T::kKeys;
        // No register keeps what all see where a head has 256 numbers.
        const int unseen_now = T::kColumns > 128 ? unseen_by_last() : unseen;
        return key < unseen_now || key + T::kKeys - 1 > args.cached + work.place.begin;
    }

    __device__ __forceinline__ void run() {
        if (lane.group == 1) pass_turn();
        wait_for(stages.q_full, 0);
        stages.keys.wait_until_full();
        start_scores();
        wait_for_products<0>();
        keep_here(scores);
        stages.keys.leave();
        weigh(work.count - 1);
        pack_weights(scores, weights);
        for (int tile = work.count - 2; tile >= 0; --tile) take(tile);
        hide_faults(0);
        stages.values.wait_until_full();
        start_mixing();
        wait_for_products<0>();
        keep_here(sums);
        stages.values.leave();
        write();
    }

    // Scores of one tile, and the sums of the one after it.
    __device__ __forceinline__ void take(int tile) {
        hide_faults(tile + 1);
        stages.keys.wait_until_full();
        wait_for_turn();
        start_scores();
        stages.values.wait_until_full();
        start_mixing();
        pass_turn();
        wait_for_products<1>();
        keep_here(scores);
        stages.keys.leave();
        weigh(tile);
        wait_for_products<0>();
        keep_here(sums);
        stages.values.leave();
        WINDLASS_UNROLL
        for (int i = 0; i < T::kColumns / 2; ++i) sums[i] *= factor[i / 2 % 2];
        pack_weights(scores, weights);
    }

    // Of the values of a tile whose weights are known, before they are mixed.
    __device__ __forceinline__ void hide_faults(int tile) {
        if (!is_masked(tile)) return;
        stages.values.wait_until_full();
        meet_for_faults();
        clear_faults<typename T::K>(stages.v(), stages.faults());
        meet_for_faults();
        spread_faults(weights, stages.faults(), sums);
    }

    __device__ __forceinline__ void start_scores() {
        keep_here(scores);
        begin_products();
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(scores, stages.q, lane.first_row(), stages.k());
        end_products();
    }
    __device__ __forceinline__ void start_mixing() {
        keep_here(sums);
        begin_products();
        mix_tile<typename T::K>(sums, weights, stages.v());
        end_products();
    }

    __device__ __forceinline__ void wait_for_turn() const {
        if constexpr (T::kTurns) wait_at(1 + lane.group, 2 * kWarpGroup);
    }
    __device__ __forceinline__ void pass_turn() const {
        if constexpr (T::kTurns) arrive_at(2 - lane.group, 2 * kWarpGroup);
    }

    // Scores become weights relative to the greatest one so far; what was summed under the one before it is to be
    // multiplied by `factor`. The four lanes of a row share it.
    __device__ __forceinline__ void weigh(int tile) {
        cap_scores<kCapped>(args, scores);
        if (is_masked(tile)) mask(work.first + tile * T::kKeys);
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) {
            float now = greatest[r];
            WINDLASS_UNROLL
            for (int i = 0; i < kScores / 2; ++i) now = fmaxf(now, scores[i / 2 * 4 + 2 * r + i % 2]);
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
            const float under = now == kNoScore ? 0.0f : now * scale;
            factor[r] = exp2_quick(__fmaf_rn(greatest[r], scale, -under));
            greatest[r] = now;
            float sum = total[r] * factor[r];
            WINDLASS_UNROLL
            for (int i = 0; i < kScores / 2; ++i) {
                float& score = scores[i / 2 * 4 + 2 * r + i % 2];
                score = exp2_quick(__fmaf_rn(score, scale, -under));
                sum += score;
            }
            total[r] = sum;
        }
    }

    // Few tiles are masked: what a row sees first is found again for each.
    __device__ __forceinline__ void mask(int key) {
        int first[2];
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) first[r] = first_key(args, work.place.row, work.place.begin + lane.row(r));
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) {
            const int at = key + lane.column_of(i), r = i / 2 % 2;
            if (at < first[r] || at > args.cached + first_query() + lane.row_of_group(r)) scores[i] = kNoScore;
        }
    }

    __device__ __forceinline__ void write() {
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) {
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
            const int query = work.place.begin + lane.row(r);
            if (query >= args.length) continue;
            const int64_t row = query_row(args, work.place) + query;
            write_hopper<T::kSize>(args.out, row, work.place.head, args.head_size, r, 1.0f / total[r], sums);
            if (args.log_sum != nullptr && lane.column() == 0)
                args.log_sum[row * args.log_sum_stride + work.place.head] =
                    greatest[r] * exponent_scale<kCapped>(args) + logf(total[r]);
        }
    }
};

template <int kSize, bool kCapped>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_forward_hopper(const __grid_constant__ AttentionHopperArgs args) {
    using T = Tiles<kSize>;
    const AttentionArgs& call = args.call;
    const Stages<T> stages;
    const AttentionPlace place = hopper_place(args, call.heads, T::kQueries, /*last_first=*/true);
    const int first = first_key(call, place.row, place.begin);
    const int end = call.cached + min(place.begin + T::kQueries, call.length);
    const Work work{place, place.head / (call.heads / call.key_heads), first, tiles_of(end - first, T::kKeys)};
    if (threadIdx.x == 0) stages.make();
    __syncthreads();
    if (threadIdx.x < kWarpGroup) {
        give_registers<kLoadingRegisters>();
        if (threadIdx.x == 0) load<T>(args, work, stages);
    } else {
        take_registers<kMultiplyingRegisters>();
        Group<T, kCapped>(call, work, stages).run();
    }
}

}  // namespace attention_forward_hopper

void launch_forward_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream) {
    by_hopper_size(args.call, [&]<int kSize, bool kCapped>() {
        using T = attention_forward_hopper::Tiles<kSize>;
        launch(stream, hopper_grid<T>(query_tiles(args.call, T::kQueries)),
               attention_forward_hopper::attention_forward_hopper<kSize, kCapped>, args, "attention forward of sm_90a");
    });
}

}  // namespace windlass
