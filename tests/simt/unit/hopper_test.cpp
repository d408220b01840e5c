// Instructions of sm_90a do what the PTX ISA says, and whatever a kernel forgets is seen: as a fault, or in the result.
//
// The kernel is what attention does, in little: boxes stream through two stages of shared memory; two groups multiply
// them with rows of their own, and the products, packed, with the boxes again.
#include "tests/simt/language.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/error.h"
#include "op/attention_hopper_tiles_cuda.h"
#include "tests/simt/block.h"

namespace windlass {
namespace {

constexpr int kTiles = 8, kSize = 64, kOwnRows = 128;
using Own = HopperTile<kSize, kOwnRows>;
using Streamed = HopperTile<kSize, kSize>;
constexpr unsigned kSharedBytes =
    hopper_shared_bytes(Own::kBytes + kHopperStages * Streamed::kBytes, 1 + HopperRing::kBarriers);

enum class Planted {
    none,
    no_wait_for_a_copy,
    no_wait_for_products,
    stage_left_early,
    half_of_the_warps_leave,
    one_thread_leaves_for_its_group,
    other_parity,
    too_few_bytes_expected,
    too_many_bytes_expected,
    no_block_barrier,
    barriers_not_shown,
    no_begin_of_products,
    begin_before_the_left_factor,
    sums_touched_early,
    left_factor_touched_early,
    store_not_shown,
    parts_and_rows_exchanged,
    groups_ask_for_different_sums,
    too_many_registers,
    tile_not_aligned,
    products_not_waited_for_at_the_end,
    copies_not_waited_for_at_the_end,
    turn_not_passed,
    turn_of_fewer_threads,
    kCount,
};

struct Job {
    TensorMap own, streamed;
    float* out = nullptr;  // [kOwnRows, kSize]
    Planted planted = Planted::none;
    bool is(Planted fault) const { return planted == fault; }
};

struct Memory {
    unsigned char *own, *streamed;
    Barrier* own_full;
    explicit Memory(const Job& job)
        : own(hopper_shared() + (job.is(Planted::tile_not_aligned) ? 512 : 0)),
          streamed(own + Own::kBytes),
          own_full(reinterpret_cast<Barrier*>(streamed + kHopperStages * Streamed::kBytes)) {}
    unsigned char* stage(int i) const { return streamed + i * Streamed::kBytes; }
};

void load_all(const Job& job, const Memory& memory, HopperRing ring) {
    arrive_expecting(memory.own_full, Own::kBytes);
    Own::load(memory.own, &job.own, 0, 0, 0, memory.own_full);
    const int extra = job.is(Planted::copies_not_waited_for_at_the_end) ? 1 : 0;
    for (int tile = 0; tile < kTiles + extra; ++tile) {
        const int bytes = job.is(Planted::too_few_bytes_expected)    ? Streamed::kBytes / 2
                          : job.is(Planted::too_many_bytes_expected) ? 2 * Streamed::kBytes
                                                                     : Streamed::kBytes;
        if (job.is(Planted::other_parity)) ring.parity ^= 1;
        Barrier* const full = ring.fill(static_cast<unsigned>(bytes));
        if (job.is(Planted::other_parity)) ring.parity ^= 1;
        Streamed::load(memory.stage(ring.stage), &job.streamed, 0, tile * kSize, 0, full);
        ring.next();
    }
}

// The first number of the group's own rows becomes zero: a store that products are to see.
void clear_first_number(const Job& job, const Memory& memory, const HopperLane& lane) {
    if (threadIdx.x % kWarpGroup == 0) *reinterpret_cast<uint16_t*>(memory.own + lane.first_row() * 128) = 0;
    if (!job.is(Planted::store_not_shown)) show_stores();
    wait_at(3 + lane.group, kWarpGroup);
}

void leave(const Job& job, HopperRing& ring) {
    if (job.is(Planted::one_thread_leaves_for_its_group)) {
        if (threadIdx.x % kWarpGroup == 0)
            for (unsigned i = 0; i < kMultiplyingWarps / 2; ++i) arrive(ring.empty + ring.stage);
        return ring.next();
    }
    ring.leave();
}

void multiply_one(const Job& job, const Memory& memory, HopperRing& ring, float (&scores)[32], float (&sums)[32]) {
    const HopperLane lane;
    uint32_t packed[4][4];
    if (!job.is(Planted::no_wait_for_a_copy)) ring.wait_until_full();
    const unsigned char* const stage = memory.stage(ring.stage);
    if (job.is(Planted::stage_left_early) && threadIdx.x % kWarp == 0) arrive(ring.empty + ring.stage);
    wait_at(1 + lane.group, 2 * kWarpGroup);
    if (!job.is(Planted::no_begin_of_products)) begin_products();
    const bool odd = job.is(Planted::groups_ask_for_different_sums) && lane.warp == 1;
    multiply_tiles<kSize, Own, Streamed>(scores, memory.own, lane.first_row(), stage, odd);
    end_products();
    if (!job.is(Planted::turn_not_passed))
        arrive_at(2 - lane.group, (job.is(Planted::turn_of_fewer_threads) ? 1 : 2) * kWarpGroup);
    if (job.is(Planted::begin_before_the_left_factor)) begin_products();
    if (!job.is(Planted::no_wait_for_products)) wait_for_products<0>();
    pack_weights(scores, packed);
    if (!job.is(Planted::sums_touched_early))
        for (float& sum : sums) sum *= 2;
    if (!job.is(Planted::begin_before_the_left_factor)) begin_products();
    if (job.is(Planted::parts_and_rows_exchanged)) {
        for (int k = 0; k < 4; ++k)
            multiply_registers<true>(sums, packed[k],
                                     describe_factor(stage + 16 * k * 128, Streamed::kEightRows, Streamed::kPartBytes),
                                     true);
    } else {
        mix_tile<Streamed>(sums, packed, stage);
    }
    end_products();
    if (job.is(Planted::sums_touched_early))
        for (float& sum : sums) sum *= 2;
    if (job.is(Planted::left_factor_touched_early))
        for (auto& four : packed) four[0] = 0;
    wait_for_products<0>();
    if (job.is(Planted::stage_left_early)) return ring.next();
    leave(job, ring);
}

void multiply_all(const Job& job, const Memory& memory, HopperRing ring) {
    const HopperLane lane;
    float scores[32], sums[32] = {};
    if (lane.group == 1) arrive_at(1, 2 * kWarpGroup);
    wait_for(memory.own_full, 0);
    clear_first_number(job, memory, lane);
    for (int tile = 0; tile < kTiles; ++tile) multiply_one(job, memory, ring, scores, sums);
    for (int i = 0; i < 32; ++i) job.out[lane.row(i / 2 % 2) * kSize + lane.column_of(i)] = sums[i];
    if (job.is(Planted::products_not_waited_for_at_the_end)) {
        begin_products();
        multiply_tiles<kSize, Own, Streamed>(scores, memory.own, lane.first_row(), memory.own);
        end_products();
    }
}

void product_kernel(const Job& job) {
    const Memory memory(job);
    HopperRing ring(memory.own_full + 1);
    if (threadIdx.x == 0) {
        make_barrier(memory.own_full, 1);
        ring.make(1);
        if (job.is(Planted::half_of_the_warps_leave))
            for (int i = 0; i < kHopperStages; ++i) make_barrier(ring.empty + i, kMultiplyingWarps / 2);
        if (!job.is(Planted::barriers_not_shown)) show_barriers();
    }
    if (!job.is(Planted::no_block_barrier)) __syncthreads();
    if (threadIdx.x < kWarpGroup) {
        give_registers<kLoadingRegisters>();
        if (threadIdx.x == 0) load_all(job, memory, ring);
    } else {
        if (job.is(Planted::too_many_registers))
            take_registers<kMultiplyingRegisters + 8>();
        else
            take_registers<kMultiplyingRegisters>();
        multiply_all(job, memory, ring);
    }
}

// Small whole numbers, as bf16: every sum is exact.
int own_number(int row, int column) {
    return (row * 5 + column * 3) % 3 - 1;
}
int streamed_number(int row, int column) {
    return (row * row + column * 7) % 3 - 1;
}
std::vector<uint16_t> bf16_numbers(int rows, int (*number)(int, int)) {
    std::vector<uint16_t> bits;
    for (int i = 0; i < rows * kSize; ++i)
        bits.push_back(
            static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number(i / kSize, i % kSize))) >> 16));
    return bits;
}

std::vector<float> wanted() {
    std::vector<float> sums(kOwnRows * kSize);
    for (int row = 0; row < kOwnRows; ++row) {
        for (int tile = 0; tile < kTiles; ++tile) {
            float* const to = &sums[static_cast<size_t>(row * kSize)];
            for (int i = 0; i < kSize; ++i) to[i] *= 2;
            for (int n = tile * kSize; n < (tile + 1) * kSize; ++n) {
                int score = 0;
                for (int k = row % 64 == 0 ? 1 : 0; k < kSize; ++k) score += own_number(row, k) * streamed_number(n, k);
                for (int i = 0; i < kSize; ++i) to[i] += static_cast<float>(score * streamed_number(n, i));
            }
        }
    }
    return sums;
}

// What shows, with one of the seeds; empty: nothing.
std::string seen(Planted planted, uint64_t seeds) {
    const std::vector<uint16_t> own = bf16_numbers(kOwnRows, own_number),
                                streamed = bf16_numbers((kTiles + 1) * kSize, streamed_number);
    const auto map = [](const std::vector<uint16_t>& numbers, int box_tokens) {
        const int64_t tokens = std::ssize(numbers) / kSize;
        return simt::make_tensor_map({.data = numbers.data(),
                                      .columns = kSize,
                                      .heads = 1,
                                      .tokens = tokens,
                                      .rows = 1,
                                      .head_stride = kSize,
                                      .token_stride = kSize,
                                      .row_stride = tokens * kSize,
                                      .box_tokens = box_tokens});
    };
    const std::vector<float> want = wanted();
    for (uint64_t seed = 0; seed < seeds; ++seed) {
        std::vector<float> out(want.size());
        const Job job{map(own, kOwnRows), map(streamed, kSize), out.data(), planted};
        try {
            simt::run_grid({.threads = kHopperThreads, .shared_bytes = kSharedBytes}, seed,
                           [&] { product_kernel(job); });
        } catch (const simt::Fault& fault) {
            return fault.what();
        }
        if (out != want) return fmt::format("seed {}: other numbers", seed);
    }
    return "";
}

TEST(Hopper, BoxesStreamAndGroupsMultiply) {
    EXPECT_EQ(seen(Planted::none, 8), "");
}

class HopperFaults : public testing::TestWithParam<Planted> {};

TEST_P(HopperFaults, AreSeen) {
    const std::string what = seen(GetParam(), 100);
    EXPECT_NE(what, "");
    RecordProperty("seen", what);
}

std::vector<Planted> planted_faults() {
    std::vector<Planted> all;
    for (int i = 1; i < static_cast<int>(Planted::kCount); ++i) all.push_back(static_cast<Planted>(i));
    return all;
}

INSTANTIATE_TEST_SUITE_P(Planted, HopperFaults, testing::ValuesIn(planted_faults()));

TEST(Hopper, BoxesAreZeroAfterAHeadAndAfterARowEnd) {
    const std::vector<uint16_t> numbers(3 * 70 * 160, 0x3f80);
    const TensorMap map = simt::make_tensor_map({.data = numbers.data(),
                                                 .columns = 70,
                                                 .heads = 2,
                                                 .tokens = 60,
                                                 .rows = 3,
                                                 .head_stride = 80,
                                                 .token_stride = 160,
                                                 .row_stride = 70 * 160,
                                                 .box_tokens = 32});
    simt::run_grid({.threads = 32, .shared_bytes = hopper_shared_bytes(4096, 1)}, 1, [&] {
        auto* const tile = reinterpret_cast<uint16_t*>(hopper_shared());
        auto* const barrier = reinterpret_cast<Barrier*>(tile + 2048);
        if (threadIdx.x == 0) {
            make_barrier(barrier, 1);
            show_barriers();
            arrive_expecting(barrier, 4096);
            load_box(tile, &map, {.column = 64, .head = 0, .token = 50, .row = 2}, barrier);
        }
        __syncthreads();
        wait_for(barrier, 0);
        // Row r, part p of eight numbers: at part p ^ r % 8.
        for (int row = 0; row < 32; ++row)
            for (int column = 0; column < 64; ++column) {
                const bool given = row < 10 && column < 6;
                EXPECT_EQ(tile[row * 64 + (column / 8 ^ row % 8) * 8 + column % 8], given ? 0x3f80 : 0);
            }
    });
}

TEST(Hopper, ABoxThatNoCardTakesIsRefused) {
    alignas(16) static uint16_t number[8];
    EXPECT_THROW(simt::make_tensor_map({number + 1, 8, 1, 1, 1, 8, 8, 8, 1}), DeviceError);
    EXPECT_THROW(simt::make_tensor_map({number, 4, 1, 1, 1, 8, 4, 8, 1}), DeviceError);
    EXPECT_THROW(simt::make_tensor_map({number, 8, 1, 1, 1, 8, 8, 8, 512}), DeviceError);
}

}  // namespace
}  // namespace windlass
