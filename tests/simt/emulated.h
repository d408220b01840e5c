// emulated.h: a CUDA runtime whose devices are the CPU: streams are late queues, memory has walls, kernels run as
// tests/simt/block.h says. Programs of the tests link it in place of NVIDIA's.
//
// What tests may set holds for all devices from then on. Threads: set while nothing is launched.
#pragma once

#include <cstdint>
#include <functional>

namespace windlass::simt {

struct Emulation {
    uint64_t seed = 0;         // of the order of threads and blocks, and of how late streams are
    int64_t late_ns = 0;       // LateQueue
    int64_t failing_call = 0;  // the n-th call of the runtime from now on that may fail, from 1, does; 0: none
    int64_t noted_call = 0;    // before the n-th, note() is called
    std::function<void()> note = {};
    int devices = 1;
    bool has_kernels = true;                       // the program has kernels for these devices
    int64_t pinned_part_bytes = int64_t{1} << 16;  // that one registration takes, and that the system allows in all
    int64_t pinned_bytes_max = INT64_MAX;
    int64_t ahead_ns = 0;                                    // the clocks of devices, of events recorded from now on
    int capability = 90;                                     // compute capability 9.0
    int64_t cache_bytes = 0;                                 // that a device reports; 0: none
    std::function<void(const char* kernel)> launching = {};  // called before each launch
};
void emulate(const Emulation& emulation);
// Calls that may fail, since emulate().
int64_t calls();
// Allocations, streams and events that nobody has released.
int64_t held();
// Copies of the runtime, since emulate().
int64_t copies_made();
// Whether something asked for that device since emulate().
bool is_used(int device);
// Of numbers, in slow tests of what has the CPU's bits: a power of two that this device gets through in seconds.
int64_t many();

}  // namespace windlass::simt
