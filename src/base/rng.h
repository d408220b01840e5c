// rng.h: counter-based random numbers: any element's bits from (key, counter), in any order, on any device.
//
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11), through Random123.
#pragma once

#include <array>
#include <cstdint>

namespace windlass {

// What a random number is for; each use has its own stream of counters.
enum class RandomStream : uint16_t {
    shuffle = 0,
    noise = 1,
    rounding = 2,
    sampling = 3,
    init = 4,
    test = 5,
    split = 6,
    search = 7,
    layers = 8,
    gradients = 9,
    refresh = 10
};

struct RandomCounter {
    uint64_t block = 0;  // index of a group of four elements, 48 bits
    RandomStream stream = RandomStream::test;
    uint32_t step = 0;
    uint32_t direction = 0;
};

// Four independent 32-bit words.
std::array<uint32_t, 4> philox(uint64_t key, const RandomCounter& counter);

// A uniform number in [0, 1) from 24 bits of a word.
inline float uniform01(uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1p-24f;
}

// Draws in sequence from one stream; copying it copies the position.
class Random {
  public:
    Random(uint64_t key, RandomStream stream, uint32_t step = 0) : key_(key), counter_{0, stream, step, 0} {}
    uint32_t next();
    float uniform() { return uniform01(next()); }
    // Standard normal, Box-Muller in double precision.
    float normal();
    // An integer in [0, bound), without modulo bias.
    uint64_t below(uint64_t bound);

  private:
    uint64_t key_;
    RandomCounter counter_;
    std::array<uint32_t, 4> words_{};
    int left_ = 0;
};

}  // namespace windlass
