// Backward of attention on sm_90a, by keys: dk and dv. The mathematics: attention_backward_plain_cuda.h.
//
// A block owns keys and their values; the queries that see them stream past, one head of the group after another.
// Scores and dp are computed transposed, a row for each key: so p and ds are left factors in registers, and never in
// memory.
#include "op/attention_hopper_faults_cuda.h"

namespace windlass {
namespace attention_by_keys_hopper {

constexpr unsigned kFactsArrivals = kWarp;  // the warp that writes facts of queries; copies are one arrival more

// What a query's weights are made with; one after the row's last sees no key.
struct Facts {
    float log_sum;  // of powers of two
    float delta;
    int first;
    int unused;
};

template <int kHead>
struct Tiles {
    static constexpr int kSize = kHead, kColumns = hopper_columns(kSize);
    static constexpr int kKeys = by_keys_tiles(kSize).own, kQueries = by_keys_tiles(kSize).others;
    // Heads of 256: registers hold 64 sums of dk or of dv, so one group has dv and the other dk, of the same keys.
    static constexpr bool kWide = kKeys == 64;
    using K = HopperTile<kColumns, kKeys>;
    using Q = HopperTile<kColumns, kQueries>;
    static constexpr int kTileBytes = 2 * K::kBytes + 2 * kHopperStages * Q::kBytes;
    static constexpr int kFactsBytes = kHopperStages * kQueries * static_cast<int>(sizeof(Facts));
    static constexpr int kBytes = kTileBytes + kFactsBytes + static_cast<int>(sizeof(HopperFaults<Q>));
    static constexpr unsigned kSharedBytes = hopper_shared_bytes(kBytes, 1 + HopperRing::kBarriers);
    static_assert(kSharedBytes <= kHopperSharedMax);
    // Registers of a thread. At 128 products do not overlap with 232; with 24 the warp that has the facts spills a few.
    static constexpr int loading(bool is_capped) { return kColumns == 128 && !is_capped ? 24 : 40; }
    static constexpr int multiplying(bool is_capped) { return loading(is_capped) == 24 ? 240 : 232; }
};

// Shared memory: keys, values, queries and dO of each stage, facts of each stage, faults of dO, barriers.
template <typename T>
struct Stages {
    unsigned char* const k = hopper_shared();
    Barrier* const own_full = reinterpret_cast<Barrier*>(k + T::kBytes);
    HopperRing ring{own_full + 1};

    __device__ unsigned char* v() const { return k + T::K::kBytes; }
    __device__ unsigned char* q() const { return k + 2 * T::K::kBytes + 2 * ring.stage * T::Q::kBytes; }
    __device__ unsigned char* grad_out() const { return q() + T::Q::kBytes; }
    __device__ Facts* facts() const { return reinterpret_cast<Facts*>(k + T::kTileBytes) + ring.stage * T::kQueries; }
    __device__ uint32_t* faults() const { return reinterpret_cast<uint32_t*>(k + T::kTileBytes + T::kFactsBytes); }
    __device__ void make() const {
        make_barrier(own_full, 1);
        ring.make(1 + kFactsArrivals);
        show_barriers();
    }
};

// The queries of a block, tile by tile for each head of the group; `tiles` for each.
struct Work {
    AttentionPlace place;
    int first_head, heads, tiles;
    __device__ int end_head() const { return first_head + heads; }
};

template <typename T>
__device__ __forceinline__ void load_tiles(const AttentionHopperArgs& args, const Work& work, Stages<T> stages) {
    const int row = work.place.row, begin = work.place.begin, end = begin + work.tiles * T::kQueries;
    arrive_expecting(stages.own_full, 2 * T::K::kBytes);
    T::K::load(stages.k, &args.k, work.place.head, begin, row, stages.own_full);
    T::K::load(stages.v(), &args.v, work.place.head, begin, row, stages.own_full);
    WINDLASS_LOOP
    for (int head = work.first_head; head < work.end_head(); ++head) {
        WINDLASS_LOOP
        for (int query = begin; query < end; query += T::kQueries) {
            Barrier* const full = stages.ring.fill(2 * T::Q::kBytes);
            T::Q::load(stages.q(), &args.q, head, query, row, full);
            T::Q::load(stages.grad_out(), &args.grad_out, head, query, row, full);
            stages.ring.next();
        }
    }
}

__device__ inline Facts facts_of(const AttentionArgs& args, const AttentionPlace& place, int query, int head) {
    if (query >= args.length) return {0, 0, args.length, 0};
    const int64_t row = query_row(args, place) + query;
    return {args.log_sum[row * args.log_sum_stride + head] * kLog2OfE, args.delta[row * args.heads + head],
            first_key(args, place.row, query), 0};
}

template <typename T>
__device__ __forceinline__ void load_facts(const AttentionArgs& args, const Work& work, Stages<T> stages) {
    const int lane = static_cast<int>(threadIdx.x % kWarp), begin = work.place.begin;
    WINDLASS_LOOP
    for (int head = work.first_head; head < work.end_head(); ++head) {
        WINDLASS_LOOP
        for (int query = begin; query < begin + work.tiles * T::kQueries; query += T::kQueries) {
            stages.ring.wait_until_empty();
            WINDLASS_LOOP
            for (int i = lane; i < T::kQueries; i += static_cast<int>(kWarp))
                stages.facts()[i] = facts_of(args, work.place, query + i, head);
            arrive(stages.ring.full + stages.ring.stage);
            stages.ring.next();
        }
    }
}

// What both kinds of groups compute: p and ds of the group's 64 keys, a row each.
template <typename T, bool kCapped>
struct Weights {
    static constexpr int kScores = T::kQueries / 2;
    const AttentionArgs& args;
    const Work work;
    Stages<T> stages;
    const HopperLane lane{};
    const int first_row;  // of the group's keys
    const float scale;    // of powers of two
    float p[kScores], ds[kScores];

    __device__ __forceinline__ Weights(const AttentionArgs& given, const Work& of, const Stages<T>& at)
        : args(given),
          work(of),
          stages(at),
          first_row(T::kWide ? 0 : lane.first_row()),
          scale(exponent_scale<kCapped>(given) * kLog2OfE) {}

    __device__ __forceinline__ int key(int r) const { return work.place.begin + first_row + lane.row_of_group(r); }

    __device__ __forceinline__ void start_scores() {
        keep_here(p);
        begin_products();
        multiply_tiles<T::kSize, typename T::K, typename T::Q>(p, stages.k, first_row, stages.q());
        end_products();
    }
    // In the group of products that start_scores() begins one for.
    __device__ __forceinline__ void start_changes() {
        keep_here(ds);
        multiply_tiles<T::kSize, typename T::K, typename T::Q>(ds, stages.v(), first_row, stages.grad_out());
        end_products();
    }

    // Calls take(query) for each tile, whose first query it is.
    template <typename Take>
    __device__ __forceinline__ void for_tiles(Take take) {
        const int begin = work.place.begin, end = begin + work.tiles * T::kQueries;
        wait_for(stages.own_full, 0);
        WINDLASS_LOOP
        for (int head = 0; head < work.heads; ++head) {
            WINDLASS_LOOP
            for (int query = begin; query < end; query += T::kQueries) take(query);
        }
    }

    // Whether number i of a tile of queries from `begin` on is that of a query that sees the key.
    __device__ __forceinline__ bool is_seen(int begin, int i) const {
        const int n = lane.column_of(i), at = key(i / 2 % 2);
        return at >= stages.facts()[n].first && at <= begin + n;
    }
    // Whether some query of the tile does not see some key of the block.
    __device__ __forceinline__ bool is_masked(int begin) const {
        const int first = work.place.begin;
        return begin < first + T::kKeys - 1 || stages.facts()[T::kQueries - 1].first > first;
    }
    // Of queries and of dO, before they are mixed. A NaN in a query that is seen is in ds already, one in dO is not.
    __device__ __forceinline__ void hide_faults() const {
        meet_for_faults();
        clear_faults<typename T::Q>(stages.q(), nullptr);
        clear_faults<typename T::Q>(stages.grad_out(), stages.faults());
        meet_for_faults();
    }
    __device__ __forceinline__ void weigh(int begin) {
        const bool masked = is_masked(begin);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) {
            p[i] = exp2_quick(__fmaf_rn(p[i], scale, -stages.facts()[lane.column_of(i)].log_sum));
            if (masked) p[i] = is_seen(begin, i) ? p[i] : 0.0f;
        }
    }
    // dp become ds, up to the scale of scores.
    __device__ __forceinline__ void change() {
        const Facts* const facts = stages.facts();
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) ds[i] = p[i] * (ds[i] - facts[lane.column_of(i)].delta);
    }
    __device__ __forceinline__ void forget_unseen() {
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) ds[i] = unless_unseen(p[i], ds[i]);
    }
    // Both, where the slope of the cap is known only before the weights are.
    __device__ __forceinline__ void weigh_capped(int begin) {
        const Facts* const facts = stages.facts();
        cap_scores<kCapped>(args, p);
        WINDLASS_UNROLL
        for (int i = 0; i < kScores; ++i) {
            const float slope = slope_of_cap(args, p[i]), change = ds[i] - facts[lane.column_of(i)].delta;
            const float power = exp2_quick(__fmaf_rn(p[i], scale, -facts[lane.column_of(i)].log_sum));
            p[i] = is_seen(begin, i) ? power : 0.0f;
            ds[i] = p[i] * slope * change;
        }
    }

    template <int kCount>
    __device__ __forceinline__ void write(const CudaValue& value, float factor, const float (&sums)[kCount]) const {
        WINDLASS_UNROLL
        for (int r = 0; r < 2; ++r)
            if (key(r) < args.length)
                write_hopper<T::kSize>(value, query_row(args, work.place) + key(r), work.place.head, args.head_size, r,
                                       factor, sums);
    }
};

// A group of 64 keys, with sums of dk and of dv.
template <typename T, bool kCapped>
struct Group : Weights<T, kCapped> {
    using Weights<T, kCapped>::stages;
    using Weights<T, kCapped>::p;
    using Weights<T, kCapped>::ds;
    float dk[T::kColumns / 2], dv[T::kColumns / 2];
    uint32_t packed_p[T::kQueries / 16][4], packed_ds[T::kQueries / 16][4];

    using Weights<T, kCapped>::Weights;

    __device__ __forceinline__ void run() {
        clear(dk);
        clear(dv);
        this->for_tiles([this](int query) { take(query); });
        this->write(this->args.grads.k, this->args.scale, dk);
        this->write(this->args.grads.v, 1.0f, dv);
    }

    __device__ __forceinline__ void take(int query) {
        stages.ring.wait_until_full();
        if (kCapped || this->is_masked(query))
            take_whole(query);
        else
            take_overlapped(query);
        stages.ring.leave();
    }

    // Both products of a tile are there before anything is made of them, so numbers can be taken out of it.
    __device__ __forceinline__ void take_whole(int query) {
        this->start_scores();
        this->start_changes();
        wait_for_products<0>();
        keep_here(p);
        keep_here(ds);
        if constexpr (kCapped) {
            this->weigh_capped(query);
        } else {
            this->weigh(query);
            this->change();
        }
        const bool masked = this->is_masked(query);
        if (masked) this->forget_unseen();
        pack_weights(p, packed_p);
        pack_weights(ds, packed_ds);
        if (masked) {
            this->hide_faults();
            spread_faults(packed_p, stages.faults(), dv);
        }
        start_mixing(dv, packed_p, stages.grad_out());
        start_mixing(dk, packed_ds, stages.q());
        wait_for_products<0>();
        keep_here(dk);
        keep_here(dv);
    }

    __device__ __forceinline__ void take_overlapped(int query) {
        this->start_scores();
        this->start_changes();
        wait_for_products<1>();
        keep_here(p);
        this->weigh(query);
        pack_weights(p, packed_p);
        start_mixing(dv, packed_p, stages.grad_out());
        wait_for_products<1>();
        keep_here(ds);
        this->change();
        pack_weights(ds, packed_ds);
        start_mixing(dk, packed_ds, stages.q());
        wait_for_products<0>();
        keep_here(dk);
        keep_here(dv);
    }

    template <int kCount, int kSteps>
    __device__ __forceinline__ static void start_mixing(float (&sums)[kCount], const uint32_t (&weights)[kSteps][4],
                                                        const unsigned char* tile) {
        keep_here(sums);
        begin_products();
        mix_tile<typename T::Q>(sums, weights, tile);
        end_products();
    }
};

// One of two groups of the same 64 keys: sums of dk, or of dv.
template <typename T, bool kCapped, bool kIsKeys>
struct WideGroup : Weights<T, kCapped> {
    using Weights<T, kCapped>::stages;
    using Weights<T, kCapped>::p;
    using Weights<T, kCapped>::ds;
    float sums[T::kColumns / 2];
    uint32_t packed[T::kQueries / 16][4];

    using Weights<T, kCapped>::Weights;

    __device__ __forceinline__ void run() {
        clear(sums);
        this->for_tiles([this](int query) { take(query); });
        this->write(kIsKeys ? this->args.grads.k : this->args.grads.v, kIsKeys ? this->args.scale : 1.0f, sums);
    }

    __device__ __forceinline__ void take(int query) {
        stages.ring.wait_until_full();
        this->start_scores();
        if constexpr (kIsKeys) this->start_changes();
        wait_for_products<0>();
        keep_here(p);
        if constexpr (kIsKeys) {
            keep_here(ds);
            if constexpr (kCapped) {
                this->weigh_capped(query);
            } else {
                this->weigh(query);
                this->change();
            }
            if (this->is_masked(query)) this->forget_unseen();
            pack_weights(ds, packed);
        } else {
            cap_scores<kCapped>(this->args, p);
            this->weigh(query);
            pack_weights(p, packed);
        }
        if (this->is_masked(query)) {
            this->hide_faults();
            if constexpr (!kIsKeys) spread_faults(packed, stages.faults(), sums);
        }
        keep_here(sums);
        begin_products();
        mix_tile<typename T::Q>(sums, packed, kIsKeys ? stages.q() : stages.grad_out());
        end_products();
        wait_for_products<0>();
        keep_here(sums);
        stages.ring.leave();
    }
};

template <typename T, bool kCapped>
__device__ __forceinline__ void multiply(const AttentionArgs& call, const Work& work, const Stages<T>& stages) {
    if constexpr (!T::kWide) {
        Group<T, kCapped>(call, work, stages).run();
    } else if (threadIdx.x < 2 * kWarpGroup) {
        WideGroup<T, kCapped, true>(call, work, stages).run();
    } else {
        WideGroup<T, kCapped, false>(call, work, stages).run();
    }
}

template <int kSize, bool kCapped>
__global__ void __launch_bounds__(kHopperThreads, 1)
    attention_by_keys_hopper(const __grid_constant__ AttentionHopperArgs args) {
    using T = Tiles<kSize>;
    const AttentionArgs& call = args.call;
    const Stages<T> stages;
    const AttentionPlace place = hopper_place(args, call.key_heads, T::kKeys, /*last_first=*/false);
    const int end = queries_end(call, place.row, place.begin, min(place.begin + T::kKeys, call.length));
    const int heads = call.heads / call.key_heads;
    const Work work{place, place.head * heads, heads, tiles_of(end - place.begin, T::kQueries)};
    if (threadIdx.x == 0) stages.make();
    __syncthreads();
    if (threadIdx.x < kWarpGroup) {
        give_registers<T::loading(kCapped)>();
        if (threadIdx.x == 0) load_tiles<T>(args, work, stages);
        if (threadIdx.x / kWarp == 1) load_facts<T>(call, work, stages);
    } else {
        take_registers<T::multiplying(kCapped)>();
        multiply<T, kCapped>(call, work, stages);
    }
}

}  // namespace attention_by_keys_hopper

void launch_by_keys_kernel(const AttentionHopperArgs& args, CudaStreamHandle stream) {
    by_hopper_size(args.call, [&]<int kSize, bool kCapped>() {
        using T = attention_by_keys_hopper::Tiles<kSize>;
        launch(stream, hopper_grid<T>(key_tiles(args.call, T::kKeys)),
               attention_by_keys_hopper::attention_by_keys_hopper<kSize, kCapped>, args, "attention by keys of sm_90a");
    });
}

}  // namespace windlass
