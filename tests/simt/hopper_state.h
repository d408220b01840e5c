// hopper_state.h: what a block keeps of the instructions of hopper.h.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "tests/simt/hopper.h"

namespace windlass::simt {

inline constexpr unsigned kGroupWarps = 4, kSumsMax = 128;  // of a thread

struct BarrierState {
    unsigned maker = 0, meetings = 0;  // the thread, and how often the block had met then
    unsigned arrivals = 0, pending = 0;
    int64_t bytes = 0;
    uint64_t phase = 0;                       // how many are complete
    uint64_t with_bytes = 0, waited_for = 0;  // phases: those until the last with bytes, and that were waited for
    Waiters waiters;
};

struct NumberedBarrier {
    int threads = 0, come = 0;
    Waiters waiters;
};

// A warp's quarter of a product.
struct WarpProduct {
    Site site;
    GroupProduct of_first;  // lane to come
    unsigned lanes = 0;     // that have come
    std::array<float*, kLanes> d{};
    std::array<const uint32_t*, kLanes> a{};
};

// Sums of a lane while products that add to them are under way.
struct HeldSums {
    std::array<float, kSumsMax> numbers{};
    int count = 0, products = 0;
};

struct WarpState {
    std::deque<WarpProduct> products;      // all, in the order in which they were issued
    std::array<size_t, kLanes> issued{};   // by lane
    std::array<size_t, kLanes> awaited{};  // by lane: its sums of these are its own again
    std::vector<size_t> ends;              // of groups, in products
    size_t done = 0;
    bool may_multiply = false, may_read_registers = false;  // begin_products() came last
    std::map<const float*, HeldSums> held;
    Waiters waiters;
    int registers = 0;  // of each thread; 0: as the block was started
};

struct HopperState : BlockState {
    std::unordered_map<const uint64_t*, BarrierState> barriers;
    std::array<NumberedBarrier, 16> numbered;
    bool barriers_shown = false;
    std::vector<std::byte> shown;  // shared memory as products and copies see it
    std::map<unsigned, WarpState> warps;
    int64_t free_registers = 0;
    Waiters registers_wanted;

    HopperState();
    std::string unfinished() const override;
};
HopperState& hopper_state();
std::string place_of(Site site);

// Where the byte at `offset` lies in rows of 128 bytes whose 16-byte parts are permuted.
inline uint64_t permuted(uint64_t offset) {
    return offset ^ (offset >> 7 & 7) << 4;
}

}  // namespace windlass::simt
