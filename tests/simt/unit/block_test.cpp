// What is wrong with a kernel is seen where kernels run on the CPU.
#include "tests/simt/block.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace windlass::simt {
namespace {

constexpr CudaGrid kGrid{.blocks = 3, .threads = 64, .shared_bytes = 64 * sizeof(float)};
constexpr Site kHere{__FILE__, 1}, kThere{__FILE__, 2};

std::string fault_of(const std::function<void()>& kernel) {
    try {
        run_grid(kGrid, 1, kernel);
    } catch (const Fault& fault) {
        return fault.what();
    }
    return "";
}

TEST(Block, EveryThreadRunsOnce) {
    std::vector<int> runs(3 * 64);
    run_grid(kGrid, 1, [&] { ++runs[this_thread().block_index.x * 64 + this_thread().index.x]; });
    EXPECT_EQ(runs, std::vector<int>(3 * 64, 1));
}

TEST(Block, AWarpExchanges) {
    std::vector<unsigned> got(64);
    run_grid({.threads = 64}, 2, [&] {
        const unsigned mine = this_thread().index.x;
        got[mine] = shuffle(kHere, 0xffffffffu, mine, this_thread().lane ^ 5);
        got[mine] += 1000 * ballot(kThere, 0xffffffffu, this_thread().lane == 3);
    });
    for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], (i ^ 5) + 8000);
}

// Neighbours are summed behind a barrier, or without one.
float sum_of_neighbours(uint64_t seed, bool has_barrier) {
    float sum = 0;
    run_grid({.threads = 64, .shared_bytes = 64 * sizeof(float)}, seed, [&] {
        auto* const shared = reinterpret_cast<float*>(shared_memory());
        const unsigned i = this_thread().index.x;
        shared[i] = static_cast<float>(i);
        if (has_barrier) sync_block(kHere);
        sum += shared[(i + 1) % 64];
    });
    return sum;
}

TEST(Block, AMissingBarrierShows) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
        EXPECT_EQ(sum_of_neighbours(seed, true), 2016.0f);
        EXPECT_NE(sum_of_neighbours(seed, false), 2016.0f) << "fresh shared memory is NaN";
    }
}

TEST(Block, OrdersDifferFromSeedToSeed) {
    std::set<std::vector<unsigned>> orders;
    for (uint64_t seed = 0; seed < 4; ++seed) {
        std::vector<unsigned> order;
        run_grid({.threads = 32}, seed, [&] { order.push_back(this_thread().lane); });
        orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 4u);
}

TEST(Block, ADivergentBarrierIsAFault) {
    EXPECT_EQ(fault_of([] { sync_block(this_thread().index.x < 32 ? kHere : kThere); }).substr(0, 15),
              "threads wait at");
    EXPECT_EQ(fault_of([] {
                  if (this_thread().index.x > 0) sync_block(kHere);
              }).substr(0, 14),
              "a thread ended");
    EXPECT_NE(fault_of([] {
                  if (this_thread().lane % 2 == 0)
                      sync_warp(kHere);
                  else
                      sync_warp(kThere);
              }),
              "");
    EXPECT_EQ(fault_of([] { sync_block(kHere); }), "");
}

TEST(Block, HalfAWarpDoesNotExchange) {
    EXPECT_NE(fault_of([] { shuffle(kHere, 0xffffu, 1, 0); }).find("all are wanted"), std::string::npos);
}

TEST(Block, AGridThatNoCardTakesIsAFault) {
    EXPECT_THROW(run_grid({.blocks = 1, .threads = 2048}, 1, [] {}), Fault);
    EXPECT_THROW(run_grid({.blocks = 0, .threads = 32}, 1, [] {}), Fault);
}

}  // namespace
}  // namespace windlass::simt
