// hopper.h: the instructions behind src/device/cuda/hopper.h and wgmma.h on the CPU, as the PTX ISA has them for
// sm_90a.
//
// What is under way is done at a drawn time before the wait that asks for it: a copy, and of a product each warp's
// quarter on its own. Factors are read at that time, those in registers too; sums are NaN until they are waited for.
// Products and copies see shared memory as it was when a thread last showed its stores (the async proxy), and what
// copies brought. What a card would wait for forever, or may do wrong, is a Fault.
#pragma once

#include <cstdint>

#include "device/cuda/tensor_map.h"
#include "tests/simt/block.h"

namespace windlass::simt {

// As a driver makes it, which throws DeviceError for boxes that the hardware does not take: here too.
TensorMap make_tensor_map(const TensorBoxes& boxes);

uint32_t shared_offset(const void* at);
void show_stores();

void make_barrier(uint64_t* barrier, unsigned arrivals);
void show_barriers();
void arrive(Site site, uint64_t* barrier, unsigned bytes);
void wait_for(Site site, uint64_t* barrier, unsigned parity);
void come_to(Site site, int number, int threads, bool waits);

void load_box(Site site, void* to, const TensorMap& map, const BoxPlace& from, uint64_t* barrier);

void give_registers(Site site, int count);
void take_registers(Site site, int count);

// What a lane gives to a product: d [columns / 2] (+)= a b. a: its four registers, or null: described.
struct GroupProduct {
    float* d = nullptr;
    int columns = 0;
    const uint32_t* a = nullptr;
    uint64_t a_described = 0, b_described = 0;
    bool transposed = false, adds = false;
};
void begin_products(Site site);
void multiply_group(Site site, const GroupProduct& product);
void end_products(Site site);
void wait_for_products(Site site, int groups);

}  // namespace windlass::simt
