// What a warp does with matrices is what the PTX ISA says; a copy arrives when it is waited for, and not before.
#include "tests/simt/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace windlass::simt {
namespace {

constexpr Site kMatrixSite{__FILE__, 1};

// Of small whole numbers, which bf16 holds.
uint16_t bits(int number) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(number)) >> 16);
}
uint32_t pair_of(int first, int second) {
    return bits(first) | static_cast<uint32_t>(bits(second)) << 16;
}
int number_a(unsigned row, unsigned k) {
    return static_cast<int>((row * 7 + k * 3) % 11) - 5;
}
int number_b(unsigned k, unsigned col) {
    return static_cast<int>((k * 5 + col * 2) % 13) - 6;
}

std::string fault_in_a_warp(const std::function<void()>& kernel) {
    try {
        run_grid({.threads = 32, .shared_bytes = 512}, 1, kernel);
    } catch (const Fault& fault) {
        return fault.what();
    }
    return "";
}

TEST(Matrix, AWarpMultiplies) {
    std::vector<float> got(16 * 8);
    run_grid({.threads = 32}, 1, [&] {
        const unsigned g = this_thread().lane / 4, t = this_thread().lane % 4;
        const auto a_at = [&](unsigned row, unsigned k) { return pair_of(number_a(row, k), number_a(row, k + 1)); };
        const auto b_at = [&](unsigned k) { return pair_of(number_b(k, g), number_b(k + 1, g)); };
        const uint32_t a[4] = {a_at(g, 2 * t), a_at(g + 8, 2 * t), a_at(g, 2 * t + 8), a_at(g + 8, 2 * t + 8)};
        float d[4] = {1, 2, 3, 4};
        multiply_add(kMatrixSite, d, a, {b_at(2 * t), b_at(2 * t + 8)});
        for (unsigned i = 0; i < 4; ++i) got[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i] - static_cast<float>(i + 1);
    });
    for (unsigned row = 0; row < 16; ++row)
        for (unsigned col = 0; col < 8; ++col) {
            int want = 0;
            for (unsigned k = 0; k < 16; ++k) want += number_a(row, k) * number_b(k, col);
            EXPECT_EQ(got[row * 8 + col], static_cast<float>(want)) << row << ", " << col;
        }
}

TEST(Matrix, AWarpLoadsFourMatrices) {
    run_grid({.threads = 32, .shared_bytes = 512}, 1, [&] {
        auto* const shared = reinterpret_cast<uint16_t*>(shared_memory());
        const unsigned lane = this_thread().lane, g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 8; ++i) shared[lane * 8 + i] = static_cast<uint16_t>(lane * 8 + i);
        sync_block(kMatrixSite);
        uint32_t along[4], across[4];
        load_matrices(kMatrixSite, along, shared + lane * 8);
        load_matrices_transposed(kMatrixSite, across, shared + lane * 8);
        for (unsigned matrix = 0; matrix < 4; ++matrix) {
            const auto number = [&](unsigned row, unsigned col) { return matrix * 64 + row * 8 + col; };
            EXPECT_EQ(along[matrix], number(g, 2 * t) | number(g, 2 * t + 1) << 16);
            EXPECT_EQ(across[matrix], number(2 * t, g) | number(2 * t + 1, g) << 16);
        }
    });
}

TEST(Matrix, ARowThatIsNotAlignedIsAFault) {
    EXPECT_NE(fault_in_a_warp([] {
                  uint32_t to[4];
                  load_matrices(kMatrixSite, to, shared_memory() + 2);
              }),
              "");
    EXPECT_NE(fault_in_a_warp([] { start_copy(shared_memory() + 8, shared_memory() + 16, true); }), "");
}

TEST(Matrix, ACopyArrivesAtTheWaitForItsGroup) {
    alignas(16) const uint32_t from[4] = {1, 2, 3, 4};
    run_grid({.threads = 32, .shared_bytes = 1024}, 1, [&] {
        auto* const mine = reinterpret_cast<uint32_t*>(shared_memory()) + this_thread().lane * 8;
        start_copy(mine, from, true);
        end_copy_group();
        start_copy(mine + 4, nullptr, false);
        end_copy_group();
        EXPECT_EQ(mine[0], 0xffffffffu) << "fresh";
        wait_for_copies(1);
        EXPECT_EQ(mine[3], 4u);
        EXPECT_EQ(mine[4], 0xffffffffu) << "of the group that may still be under way";
        wait_for_copies(0);
        EXPECT_EQ(mine[4], 0u);
    });
}

// It would arrive in another block, which has the same threads.
TEST(Matrix, ACopyThatNobodyWaitedForIsAFault) {
    alignas(16) static const uint32_t from[4] = {1, 2, 3, 4};
    const auto kernel = [](bool waits) {
        start_copy(shared_memory(), from, true);
        end_copy_group();
        start_copy(shared_memory() + 16, from, true);
        if (waits) end_copy_group();
        wait_for_copies(0);
    };
    EXPECT_EQ(fault_in_a_warp([&] { kernel(true); }), "");
    EXPECT_THAT(fault_in_a_warp([&] { kernel(false); }), testing::HasSubstr("have not waited for 32 copies"));
    EXPECT_EQ(fault_in_a_warp([] { wait_for_copies(0); }), "") << "what an earlier block left is forgotten";
}

// Nor do those of a block that ended in another fault.
TEST(Matrix, CopiesOfABlockThatFailedAreForgotten) {
    alignas(16) static const uint32_t from[4] = {1, 2, 3, 4};
    EXPECT_NE(fault_in_a_warp([] {
                  start_copy(shared_memory(), from, true);
                  fail("planned");
                  sync_block(kMatrixSite);
              }),
              "");
    EXPECT_EQ(fault_in_a_warp([] {}), "");
}

}  // namespace
}  // namespace windlass::simt
