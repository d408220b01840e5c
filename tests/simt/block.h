// block.h: runs the blocks of a kernel on the CPU: a fiber for each thread, in an order that a seed draws.
//
// Threads change only where they wait for each other: at a barrier or in a warp's exchange. Which of those that may go
// on does so is drawn each time, so that a missing barrier shows as other bits from seed to seed; fresh shared memory
// is NaN, and its end is the end of an allocation. Threads of a block that wait at different places, or end while
// others wait, are a Fault, which names the places.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cuda/launch.h"

namespace windlass::simt {

struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Index {
    unsigned x = 0, y = 0, z = 0;
};

// A line at which a thread waits.
struct Site {
    const char* file = nullptr;
    int line = 0;
    bool operator==(const Site& other) const { return file == other.file && line == other.line; }
};

inline constexpr unsigned kLanes = 32;
inline constexpr size_t kExchanged = 64;  // bytes that a lane gives, at most
using Slots = std::array<std::array<std::byte, kExchanged>, kLanes>;

struct Thread {
    Index index, block_index, block_size, grid_size;
    unsigned lane = 0;
};
const Thread& this_thread();
std::byte* shared_memory();

void sync_block(Site site);
// All lanes of the warp meet. Each gives `mine`; the last to come may change what all are given back (`turn`, one
// function for all), and each is given the slots of all.
const Slots& exchange(Site site, std::span<const std::byte> mine, void (*turn)(Slots& slots) = nullptr);

inline void sync_warp(Site site) {
    exchange(site, {});
}

// The grid ends in a Fault that says so.
void fail(std::string what);
void require_full(Site site, uint32_t mask);

template <typename T>
T shuffle(Site site, uint32_t mask, T x, unsigned from) {
    static_assert(sizeof(T) <= kExchanged);
    require_full(site, mask);
    const Slots& slots = exchange(site, std::as_bytes(std::span(&x, 1)));
    T got;
    std::memcpy(&got, slots[from % kLanes].data(), sizeof(T));
    return got;
}

uint32_t ballot(Site site, uint32_t mask, bool holds);

// Work that no thread does: a copy or a product under way. It is done at a drawn time: half of it soon, half when no
// thread can continue without it.
void do_some_time(std::function<void()> work);

// Threads that wait until another thread, or such work, releases them. A thread that is never released is a Fault.
struct Fiber;
using Waiters = std::vector<Fiber*>;
void wait_in(Waiters& waiters, Site site);
void release_all(Waiters& waiters);

unsigned shared_bytes();
unsigned block_threads();
unsigned block_meetings();  // how often all threads have met at a barrier

// What an instruction set keeps of a block, from its first use to the block's end.
struct BlockState {
    virtual ~BlockState() = default;
    virtual std::string unfinished() const = 0;  // empty, or why the block may not end like this
};
std::unique_ptr<BlockState>& block_state();

// Calls `kernel` for each thread of the grid, block after block in a drawn order. Throws Fault.
void run_grid(const CudaGrid& grid, uint64_t seed, const std::function<void()>& kernel);

}  // namespace windlass::simt
