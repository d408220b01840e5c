// Backward of attention on sm_90a, by queries: dq. The mathematics: attention_backward_plain_cuda.h.
//
// A block owns queries and their dO; the keys and values that they see stream past.
#include "op/attention_hopper_faults_cuda.h"

namespace windlass {
namespace attention_by_queries_hopper {

template <int kHead>
struct Tiles {
    static constexpr int kSize = kHead, kColumns = hopper_columns(kSize);
    static constexpr int kQueries = by_queries_tiles(kSize).own, kKeys = by_queries_tiles(kSize).others;
    using Q = HopperTile<kColumns, kQueries>;
    using K = HopperTile<kColumns, kKeys>;
    static constexpr int kBytes = 2 * Q::kBytes + 2 * kHopperStages * K::kBytes;
    static constexpr unsigned kSharedBytes = hopper_shared_bytes(kBytes, 1 + HopperRing::kBarriers);
    static_assert(kSharedBytes <= kHopperSharedMax);
};

// Shared memory: queries, dO, keys and values of each stage, barriers.
template <typename T>
struct Stages {
    unsigned char* const q = hopper_shared();
    Barrier* const own_full = reinterpret_cast<Barrier*>(q + T::kBytes);
    HopperRing ring{own_full + 1};

    __device__ unsigned char* grad_out() const { return q + T::Q::kBytes; }
    __device__ unsigned char* k() const { return q + 2 * T::Q::kBytes + 2 * ring.stage * T::K::kBytes; }
    __device__ unsigned char* v() const { return k() + T::K::kBytes; }
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

template <typename T>
__device__ __forceinline__ void load(const AttentionHopperArgs& args, const Work& work, Stages<T> stages) {
    const int row = work.place.row, of_head = work.place.head, of_keys = work.key_head;
    arrive_expecting(stages.own_full, 2 * T::Q::kBytes);
    T::Q::load(stages.q, &args.q, of_head, work.place.begin, row, stages.own_full);
    T::Q::load(stages.grad_out(), &args.grad_out, of_head, work.place.begin, row, stages.own_full);
    WINDLASS_LOOP
    for (int tile = 0; tile < work.count; ++tile) {
        const int key = work.first + tile * T::kKeys;
        Barrier* const full = stages.ring.fill(2 * T::K::kBytes);
        T::K::load(stages.k(), &args.k, of_keys, key, row, full);
        T::K::load(stages.v(), &args.v, of_keys, key, row, full);
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
    int query[2], first[2];
    float log_sum[2], delta[2];  // of powers of two
    float dq[T::kColumns / 2], p[kScores], ds[kScores];
    uint32_t packed[T::kKeys / 16][4];

    __device__ __forceinline__ Group(const AttentionArgs& given, const Work& of, const Stages<T>& at)
        : args(given),
          work(of),
          stages(at),
          unseen(first_key(given, of.place.row, of.place.begin + T::kQueries - 1)),
          scale(exponent_scale<kCapped>(given) * kLog2OfE) {
        clear(dq);
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r) {
            query[r] = work.place.begin + lane.row(r);
            first[r] = first_key(args, work.place.row, query[r]);
            // A query after the row's last has the facts of that one: its row of dq is not written.
            const int64_t row = query_row(args, work.place) + min(query[r], args.length - 1);
            log_sum[r] = args.log_sum[row * args.log_sum_stride + work.place.head] * kLog2OfE;
            delta[r] = args.delta[row * args.heads + work.place.head];
        }
    }

    __device__ __forceinline__ void run() {
        wait_for(stages.own_full, 0);
        for (int tile = 0; tile < work.count; ++tile) take(work.first + tile * T::kKeys);
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r)
            if (query[r] < args.length)
                write_hopper<T::kSize>(args.grads.q, query_row(args, work.place) + query[r], work.place.head,
                                       args.head_size, r, args.scale, dq);
    }

    __device__ __forceinline__ void take(int key) {
        stages.ring.wait_until_full();
        keep_here(p);
        keep_here(ds);
        begin_products();
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(p, stages.q, lane.first_row(), stages.k());
        end_products();
        multiply_tiles<T::kSize, typename T::Q, typename T::K>(ds, stages.grad_out(), lane.first_row(), stages.v());
        end_products();
        if constexpr (kCapped) {
            wait_for_products<0>();
            keep_here(p);
            keep_here(ds);
            weigh_capped(key);
        } else {
            wait_for_products<1>();
            keep_here(p);
            weigh(key);
            wait_for_products<0>();
            keep_here(ds);
            WINDLASS_UNROLL
            for (int i = 0; i < kScores; ++i) ds[i] = p[i] * (ds[i] - delta[i / 2 % 2]);
        }
        if (is_masked(key)) hide_faults();
        pack_weights(ds, packed);
        keep_here(dq);
        begin_products();
        mix_tile<typename T::K>(dq, packed, stages.k());
        end_products();
        wait_for_products<0>();
        keep_here(dq);
        stages.ring.leave();
    }

    // Whether some query of the block does not see some key of a tile.
    __device__ __forceinline__ bool is_masked(int key) const {
        return key < unseen || key + T::kKeys - 1 > work.place.begin;
    }
    // A NaN in a key that is seen is in ds already.
    __device__ __forceinline__ void hide_faults() {
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) ds[i] = unless_unseen(p[i], ds[i]);
        meet_for_faults();
        clear_faults<typename T::K>(stages.k(), nullptr);
        meet_for_faults();
    }

    // Scores become weights.
    __device__ __forceinline__ void weigh(int key) {
        const bool masked = is_masked(key);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) {
            const int at = key + lane.column_of(i), r = i / 2 % 2;
            const float power = exp2_quick(__fmaf_rn(p[i], scale, -log_sum[r]));
            p[i] = masked && (at < first[r] || at > query[r]) ? 0.0f : power;
        }
    }
    // The slope of the cap is known only before the weights are.
    __device__ __forceinline__ void weigh_capped(int key) {
        cap_scores<kCapped>(args, p);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) ds[i] = slope_of_cap(args, p[i]) * (ds[i] - delta[i / 2 % 2]);
        weigh(key);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) ds[i] *= p[i];
    }
};

template <int kSize, bool kCapped>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_by_queries_hopper(const __grid_constant__ AttentionHopperArgs args) {
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

}  // namespace attention_by_queries_hopper

void launch_by_queries_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream) {
    by_hopper_size(args.call, [&]<int kSize, bool kCapped>() {
        using T = attention_by_queries_hopper::Tiles<kSize>;
        launch(stream, hopper_grid<T>(query_tiles(args.call, T::kQueries)),
               attention_by_queries_hopper::attention_by_queries_hopper<kSize, kCapped>, args,
               "attention by queries of sm_90a");
    });
}

}  // namespace windlass
