// plain_read.h: what memory allows: bytes that a team of threads reads and adds up, and does nothing else with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "device/cpu/team.h"

namespace windlass {

// Adds up a piece as 64-bit words, in four vectors of running sums: additions that wait for nothing but memory. How far
// ahead it asks, and for which cache, is what reads fastest on the processors we know.
[[gnu::target_clones("default", "avx2", "avx512f")]] static uint64_t read_piece(const std::byte* from, int64_t bytes) {
    typedef uint64_t Words __attribute__((vector_size(64), aligned(8), may_alias));
    constexpr int kSums = 4, kLinesAhead = 48, kSecondLevel = 2;
    Words sums[kSums] = {};
    const auto* const words = reinterpret_cast<const Words*>(from);
    const int64_t count = bytes / static_cast<int64_t>(sizeof(Words));
    for (int64_t i = 0; i + kSums <= count; i += kSums) {
        for (int64_t u = 0; u < kSums; ++u) __builtin_prefetch(words + i + kLinesAhead + u, 0, kSecondLevel);
        for (int64_t u = 0; u < kSums; ++u) sums[u] += words[i + u];
    }
    uint64_t sum = 0;
    for (const Words& each : sums) {
        for (int lane = 0; lane < 8; ++lane) sum += each[lane];
    }
    return sum;
}

inline void plain_read(const std::byte* from, int64_t bytes, Team& team) {
    constexpr int64_t kPiece = int64_t{256} << 10;
    team.parallel_for(div_up(bytes, kPiece), [&](int64_t index, int) {
        const int64_t begin = index * kPiece;
        const uint64_t sum = read_piece(from + begin, std::min(kPiece, bytes - begin));
        asm volatile("" : : "r"(sum));
    });
}

}  // namespace windlass
