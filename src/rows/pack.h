// pack.h: which samples share a sequence.
//
// Packed samples keep their borders: each attends to itself alone and its positions start at 0. So packing changes
// the cost of a step, not what it computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace windlass {

struct PackedRow {
    std::vector<uint32_t> samples;  // indices, in the order in which they are in the sequence
};

// Samples of one window are packed together; a sample never leaves its window. Long enough to fill rows well
// (padding below 1 % on usual data), short enough to keep the seeded order's mixture.
inline constexpr size_t kPackWindow = 1024;

// Rows of at most max_length tokens. `lengths` are the tokens of every sample (each at most max_length), `order` the
// samples to pack in the order of the epoch. Best-fit decreasing (Johnson, "Near-optimal bin packing algorithms",
// 1973) within each window of `order`; rows come in the order of their earliest sample, and so do the samples of a
// row. Depends on nothing but its arguments.
std::vector<PackedRow> pack_samples(std::span<const uint32_t> lengths, std::span<const uint32_t> order,
                                    int64_t max_length);

// One row a sample, in order.
std::vector<PackedRow> rows_without_packing(std::span<const uint32_t> order);

}  // namespace windlass
