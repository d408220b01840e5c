// calibrate.h: measures this machine: products, calls, copies, the update pass, and a drive, with the code that trains.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/file.h"
#include "device/device.h"
#include "schedule/kernel_rate.h"
#include "schedule/machine.h"

namespace windlass {

// How large what is measured is: enough for a card's peak.
struct DeviceProbe {
    int64_t tokens = 8192, side = 8192;           // of a product, and of its weights
    int64_t narrow_outputs = 16384;               // of one of few tokens: no cache holds its weights
    int64_t attention_tokens = 4096, heads = 16;  // of 128 numbers each
    int64_t copy_bytes = int64_t{256} << 20;
    int64_t noise_rows = 8192;   // of a matrix that is perturbed, of as many columns
    int64_t update_rows = 2048;  // of one that is updated, of as many columns
};
// For devices whose rates say nothing, as those of tests.
inline constexpr DeviceProbe kSmallestProbe = {.tokens = 32,
                                               .side = 64,
                                               .narrow_outputs = 64,
                                               .attention_tokens = 32,
                                               .heads = 1,
                                               .copy_bytes = 1 << 16,
                                               .noise_rows = 64,
                                               .update_rows = 64};

// small: copies are shorter, and some of them may come from caches.
enum class ProbeMemory : uint8_t { usual, small };
// Bytes that a probe takes of memory, beyond what the program has.
int64_t probe_memory(ProbeMemory memory);

// Bytes of a drive that a probe writes at a time, of which it takes at least one; 0: a drive with so little free space
// cannot be measured.
int64_t drive_probe_bytes(int64_t free_bytes);

// A few seconds, and as much memory as probe_memory says. `disk_folder` empty: the drive's rates stay zero. The probe's
// file is removed. A machine without a device next to its host has a link all the same: copies inside its memory.
Machine calibrate_machine(FileSystem& files, const std::string& disk_folder, int threads,
                          ProbeMemory memory = ProbeMemory::usual);

// What a device with memory of its own and its link do, and what the link's traffic leaves of the host's updates: some
// seconds, and a GiB of its memory. The machine's kernels are of the device from then on, and none is known.
void calibrate_device(Device& device, const DeviceProbe& probe, Machine& machine);

// The kernels that the machine has no rate of: half a second each at most, and some 300 MiB.
void calibrate_kernels(std::span<const KernelCase> cases, Device& device, int threads, Machine& machine);

}  // namespace windlass
