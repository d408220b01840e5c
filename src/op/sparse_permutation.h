// sparse_permutation.h: the order in which a lane of a sparse matrix takes its rows: a keyed bijection of [0, rows)
// with an inverse, as plain arithmetic, for tables (sparse_positions.h) and for kernels of devices: everything has
// internal linkage.
//
// A network of Feistel's over the smallest power of two that holds all rows; a number that leaves [0, rows) goes
// through it again until it is back (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002, section
// 3: cycle walking). No affine map does: rows that meet in a column would meet in every lane.
#pragma once

#include <cstdint>

namespace windlass {
namespace {

constexpr int kFeistelRounds = 6;

// Of one lane. Key and lane are bound by sparse_lane() alone.
struct SparseLane {
    uint32_t rows = 1;
    uint32_t shift = 0;  // of seed 0: the order is that of rows, shifted by this
    bool is_shifted = false;
    int low_bits = 0, high_bits = 0;  // of the two halves
    uint32_t keys[kFeistelRounds] = {};
};

// The finalizer of MurmurHash3 (Appleby, public domain).
constexpr uint32_t mixed(uint32_t x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

constexpr SparseLane sparse_lane(uint64_t seed, int64_t lane, int64_t rows) {
    SparseLane made;
    made.rows = static_cast<uint32_t>(rows);
    made.is_shifted = seed == 0;
    made.shift = static_cast<uint32_t>(lane % rows);
    int bits = 0;
    while ((int64_t{1} << bits) < rows) ++bits;
    made.high_bits = bits / 2;
    made.low_bits = bits - made.high_bits;
    uint32_t key = mixed(static_cast<uint32_t>(seed) + 0x9e3779b9u);
    key = mixed(key ^ static_cast<uint32_t>(seed >> 32));
    key = mixed(key ^ static_cast<uint32_t>(lane));
    for (int round = 0; round < kFeistelRounds; ++round) {
        key = mixed(key + 0x9e3779b9u);
        made.keys[round] = key;
    }
    return made;
}

constexpr uint32_t low_mask(int bits) {
    return (uint32_t{1} << bits) - 1;
}

// Even rounds change the low half by the high one, odd ones the high half by the low one; each undoes itself.
constexpr uint32_t feistel_round(const SparseLane& lane, uint32_t x, int round) {
    const uint32_t low = x & low_mask(lane.low_bits), high = x >> lane.low_bits;
    if (round % 2 == 0)
        return high << lane.low_bits | (low ^ (mixed(high + lane.keys[round]) & low_mask(lane.low_bits)));
    return (high ^ (mixed(low + lane.keys[round]) & low_mask(lane.high_bits))) << lane.low_bits | low;
}

// The place of row i in the lane's order.
constexpr uint32_t place_in_lane(const SparseLane& lane, uint32_t i) {
    if (lane.is_shifted) return i < lane.rows - lane.shift ? i + lane.shift : i - (lane.rows - lane.shift);
    do {
        for (int round = 0; round < kFeistelRounds; ++round) i = feistel_round(lane, i, round);
    } while (i >= lane.rows);
    return i;
}

// The row that is there.
constexpr uint32_t row_in_lane(const SparseLane& lane, uint32_t place) {
    if (lane.is_shifted) return place < lane.shift ? place + (lane.rows - lane.shift) : place - lane.shift;
    do {
        for (int round = kFeistelRounds; round-- > 0;) place = feistel_round(lane, place, round);
    } while (place >= lane.rows);
    return place;
}

}  // namespace
}  // namespace windlass
