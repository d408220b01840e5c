// Tangents of attention on sm_90a. The mathematics: attention_softmax_plain_cuda.h.
//
// A block owns queries and their tangents of one direction; keys, values and the tangents of both stream past. It
// computes weights again: six products in all.
#include "op/attention_hopper_faults_cuda.h"

namespace windlass {
namespace attention_tangent_hopper {

template <int kHead>
struct Tiles {
    static constexpr int kSize = kHead, kColumns = hopper_columns(kSize);
    static constexpr int kQueries = tangent_tiles(kSize).own, kKeys = tangent_tiles(kSize).others;
    using Q = HopperTile<kColumns, kQueries>;
    using K = HopperTile<kColumns, kKeys>;
    static constexpr int kTileBytes = 2 * Q::kBytes + 4 * kHopperStages * K::kBytes;
    static constexpr int kBytes = kTileBytes + 2 * static_cast<int>(sizeof(HopperFaults<K>));
    static constexpr unsigned kSharedBytes = hopper_shared_bytes(kBytes, 1 + HopperRing::kBarriers);
    static_assert(kSharedBytes <= kHopperSharedMax);
};

// Shared memory: queries and their tangents; keys, their tangents, values and their tangents of each stage; faults
// of values and of their tangents; barriers.
template <typename T>
struct Stages {
    unsigned char* const q = hopper_shared();
    Barrier* const own_full = reinterpret_cast<Barrier*>(q + T::kBytes);
    HopperRing ring{own_full + 1};

    __device__ unsigned char* dq() const { return q + T::Q::kBytes; }
    __device__ unsigned char* k() const { return q + 2 * T::Q::kBytes + 4 * ring.stage * T::K::kBytes; }
    __device__ unsigned char* dk() const { return k() + T::K::kBytes; }
    __device__ unsigned char* v() const { return k() + 2 * T::K::kBytes; }
    __device__ unsigned char* dv() const { return k() + 3 * T::K::kBytes; }
    __device__ uint32_t* faults() const { return reinterpret_cast<uint32_t*>(q + T::kTileBytes); }
    __device__ uint32_t* faults_of_dv() const { return faults() + T::K::kRowCount; }
    __device__ void make() const {
        make_barrier(own_full, 1);
        ring.make(1);
        show_barriers();
    }
};

// The tiles of keys that a block's queries see.
struct Work {
    AttentionPlace place;
    int key_head, first, count;
};

// The row of a tangent's map; where there is no tangent one after the map's last, whose boxes are zeros.
__device__ __forceinline__ int tangent_row(const AttentionArgs& call, const CudaValue& tangent,
                                           const AttentionPlace& place) {
    return (tangent.data == nullptr ? call.directions : place.direction) * call.rows + place.row;
}

template <typename T>
__device__ __forceinline__ void load(const AttentionHopperArgs& args, const Work& work, Stages<T> stages) {
    const AttentionHeadsCuda& tangents = args.call.tangents;
    const int row = work.place.row, row_of_dk = tangent_row(args.call, tangents.k, work.place),
              row_of_dv = tangent_row(args.call, tangents.v, work.place);
    const int of_head = work.place.head, of_keys = work.key_head;
    arrive_expecting(stages.own_full, 2 * T::Q::kBytes);
    T::Q::load(stages.q, &args.q, of_head, work.place.begin, row, stages.own_full);
    T::Q::load(stages.dq(), &args.dq, of_head, work.place.begin, tangent_row(args.call, tangents.q, work.place),
               stages.own_full);
    WINDLASS_LOOP
    for (int tile = 0; tile < work.count; ++tile) {
        const int key = work.first + tile * T::kKeys;
        Barrier* const full = stages.ring.fill(4 * T::K::kBytes);
        T::K::load(stages.k(), &args.k, of_keys, key, row, full);
        T::K::load(stages.dk(), &args.dk, of_keys, key, row_of_dk, full);
        T::K::load(stages.v(), &args.v, of_keys, key, row, full);
        T::K::load(stages.dv(), &args.dv, of_keys, key, row_of_dv, full);
        stages.ring.next();
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
    float greatest[2] = {kNoScore, kNoScore}, total[2] = {}, mean[2] = {}, factor[2] = {};
    float sums[T::kColumns / 2], changes[T::kColumns / 2], p[kScores], dp[kScores];
    uint32_t packed_p[T::kKeys / 16][4], packed_dp[T::kKeys / 16][4];

    __device__ __forceinline__ Group(const AttentionArgs& given, const Work& of, const Stages<T>& at)
        : args(given),
          work(of),
          stages(at),
          unseen(first_key(given, of.place.row, of.place.begin + T::kQueries - 1)),
          scale(exponent_scale<kCapped>(given) * kLog2OfE) {
        clear(sums);
        clear(changes);
    }

    __device__ __forceinline__ void run() {
        wait_for(stages.own_full, 0);
        WINDLASS_LOOP
        for (int tile = 0; tile < work.count; ++tile) take(work.first + tile * T::kKeys);
        write();
    }

    __device__ __forceinline__ void take(int key) {
        stages.ring.wait_until_full();
        if (is_masked(key)) hide_faults();
        start_scores();
        wait_for_products<kCapped ? 0 : 1>();
        keep_here(p);
        if constexpr (kCapped) {
            keep_here(dp);
            cap_scores<kCapped>(args, p);
            WINDLASS_UNROLL
            for (int i = 0; i < kScores; ++i) dp[i] *= slope_of_cap(args, p[i]);
        }
        weigh(key);
        start_mixing(key);
        wait_for_products<1>();  // the changes of scores are there
        keep_here(dp);
        const bool masked = is_masked(key);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) {
            dp[i] = p[i] * (args.scale * dp[i]);
            if (masked) dp[i] = unless_unseen(p[i], dp[i]);
            mean[i / 2 % 2] += dp[i];
        }
        pack_weights(dp, packed_dp);
        begin_products();
        mix_tile<typename T::K>(changes, packed_dp, stages.v());
        end_products();
        wait_for_products<0>();
        keep_here(sums);
        keep_here(changes);
        stages.ring.leave();
    }

    // Whether some query of the block does not see some key of a tile.
    __device__ __forceinline__ bool is_masked(int key) const {
        return key < unseen || key + T::kKeys - 1 > work.place.begin;
    }
    // Of values and their tangents.
    __device__ __forceinline__ void hide_faults() const {
        meet_for_faults();
        clear_faults<typename T::K>(stages.v(), stages.faults());
        clear_faults<typename T::K>(stages.dv(), stages.faults_of_dv());
        meet_for_faults();
    }

    // Scores, and as a group of their own the products of their changes.
    __device__ __forceinline__ void start_scores() {
        keep_here(p);
        keep_here(dp);
        const int row = lane.first_row();
        begin_products();
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(p, stages.q, row, stages.k());
        end_products();
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(dp, stages.dq(), row, stages.k());
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(dp, stages.q, row, stages.dk(), /*adds=*/true);
        end_products();
    }
    __device__ __forceinline__ void start_mixing(int key) {
        WINDLASS_UNROLL
        for (int i = 0; i < T::kColumns / 2; ++i) {
            sums[i] *= factor[i / 2 % 2];
            changes[i] *= factor[i / 2 % 2];
        }
        pack_weights(p, packed_p);
        if (is_masked(key)) {
            // A NaN of the values is in the sums, and so in what is made of them.
            spread_faults(packed_p, stages.faults(), sums);
            spread_faults(packed_p, stages.faults_of_dv(), changes);
        }
        keep_here(sums);
        keep_here(changes);
        begin_products();
        mix_tile<typename T::K>(sums, packed_p, stages.v());
        mix_tile<typename T::K>(changes, packed_p, stages.dv());
        end_products();
    }

    // Scores become weights relative to the greatest one so far; what was summed under the one before it is to be
    // multiplied by `factor`. The four lanes of a row share it.
    __device__ __forceinline__ void weigh(int key) {
        if (is_masked(key)) mask(key);
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) {
            float now = greatest[r];
            WINDLASS_UNROLL
            for (int i = 0; i < kScores / 2; ++i) now = fmaxf(now, p[i / 2 * 4 + 2 * r + i % 2]);
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 1));
            now = fmaxf(now, __shfl_xor_sync(0xffffffffu, now, 2));
            const float under = now == kNoScore ? 0.0f : now * scale;
            factor[r] = exp2_quick(__fmaf_rn(greatest[r], scale, -under));
            greatest[r] = now;
            total[r] *= factor[r];
            mean[r] *= factor[r];
            WINDLASS_UNROLL
            for (int i = 0; i < kScores / 2; ++i) {
                float& score = p[i / 2 * 4 + 2 * r + i % 2];
                score = exp2_quick(__fmaf_rn(score, scale, -under));
                total[r] += score;
            }
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
            if (at < first[r] || at > work.place.begin + lane.row(r)) p[i] = kNoScore;
        }
    }

    __device__ __forceinline__ void write() {
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) {
            WINDLASS_UNROLL
            for (int apart = 1; apart <= 2; ++apart) {
                total[r] += __shfl_xor_sync(0xffffffffu, total[r], apart);
                mean[r] += __shfl_xor_sync(0xffffffffu, mean[r], apart);
            }
            const float less = -mean[r] / total[r];
            WINDLASS_UNROLL
            for (int i = 0; i < T::kColumns / 4; ++i) {
                const int at = i / 2 * 4 + 2 * r + i % 2;
                changes[at] = __fmaf_rn(less, sums[at], changes[at]);
            }
            const int query = work.place.begin + lane.row(r);
            if (query < args.length)
                write_hopper<T::kSize>(args.tangent_out, query_row(args, work.place) + query, work.place.head,
                                       args.head_size, r, 1.0f / total[r], changes);
        }
    }
};

template <int kSize, bool kCapped>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_tangent_hopper(const __grid_constant__ AttentionHopperArgs args) {
    using T = Tiles<kSize>;
    const AttentionArgs& call = args.call;
    const Stages<T> stages;
    const AttentionPlace place = hopper_place(args, call.heads, T::kQueries, /*last_first=*/true);
    const int first = first_key(call, place.row, place.begin), end = min(place.begin + T::kQueries, call.length);
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

}  // namespace attention_tangent_hopper

void launch_tangent_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream) {
    by_hopper_size(args.call, [&]<int kSize, bool kCapped>() {
        if constexpr (kSize <= kHopperTangentSizeMax) {
            using T = attention_tangent_hopper::Tiles<kSize>;
            launch(stream, hopper_grid<T>(query_tiles(args.call, T::kQueries)),
                   attention_tangent_hopper::attention_tangent_hopper<kSize, kCapped>, args,
                   "attention tangent of sm_90a");
        }
    });
}

}  // namespace windlass
