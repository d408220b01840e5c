// Kernels of the CPU split and join masters as tensor/dtype.h does, one by one and by vectors.
#define WINDLASS_ISA master_in_tests
#include "tensor/master_vector.h"

#include "tensor/dtype.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

typedef uint32_t Words __attribute__((vector_size(16)));
typedef uint16_t Shorts __attribute__((vector_size(16)));
constexpr uint32_t kLanes = 4;

// How many of four neighbouring patterns come out otherwise.
uint64_t wrong_of(uint32_t first) {
    uint64_t wrong = 0;
    Words bits = {};
    Shorts hi = {}, lo = {};
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const uint32_t master = first + lane;
        const Split halves = split_master(master);
        wrong += join_master(halves) != master;
        wrong += joined_master(halves.hi, halves.lo) != master;
        wrong += master_hi(master) != halves.hi || master_lo(master) != halves.lo;
        bits[lane] = master;
        hi[lane] = halves.hi;
        lo[lane] = static_cast<uint16_t>(halves.lo);
    }
    const Words above = hi_in_upper_bits(bits);
    const Shorts upper = master_upper_bits(hi, lo);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        wrong += above[lane] >> 16 != hi[lane];
        wrong += upper[lane] != bits[lane] >> 16 || lo[lane] != (bits[lane] & 0xffffu);
    }
    return wrong;
}

uint64_t wrong_of_every(uint64_t stride) {
    uint64_t wrong = 0;
    for (uint64_t first = 0; first < uint64_t{1} << 32; first += stride * kLanes)
        wrong += wrong_of(static_cast<uint32_t>(first));
    return wrong;
}

// A prime, so that every lower half is met.
TEST(MasterVector, IsTheSplitMaster) {
    EXPECT_EQ(wrong_of_every(1009), 0u);
}

TEST(SlowMasterVector, IsTheSplitMasterOnEveryPattern) {
    EXPECT_EQ(wrong_of_every(1), 0u);
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
