// matrix.h: what a warp does with matrices, and copies that are under way, on the CPU: the instructions behind
// src/device/cuda/mma.h and async_copy.h, as the PTX ISA has them.
//
// A copy is made as late as may be: at the wait that asks for it. Who reads before that reads what was there. A block
// whose threads end without waiting for all their copies is a Fault.
#pragma once

#include <array>
#include <cstdint>

#include "tests/simt/block.h"

namespace windlass::simt {

void multiply_add(Site site, float (&d)[4], const uint32_t (&a)[4], const std::array<uint32_t, 2>& b);
void load_matrices(Site site, uint32_t (&to)[4], const void* row);
void load_matrices_transposed(Site site, uint32_t (&to)[4], const void* row);

void start_copy(void* shared, const void* global, bool given);
void end_copy_group();
void wait_for_copies(size_t groups);
// At the end of a block: how many copies its threads have not waited for. They are forgotten.
size_t forget_copies();

}  // namespace windlass::simt
