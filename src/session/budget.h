// budget.h: what memory and disk a run may use, and what the process uses before it starts.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "config/config.h"
#include "plan/planner.h"

namespace windlass {

// Bytes that can be had without swapping: MemAvailable, or what is left of the control group's limit if that is less.
int64_t available_memory();
// Private memory of this process that is resident now.
int64_t private_memory();
// The most that private_memory() was, sampled by the kernel (VmHWM without file pages).
int64_t private_memory_peak();

// The budgets of a configuration. `process` is private_memory() now and an allowance for what comes up later:
// kernels compiled at run time, stacks and heaps of worker threads, batches.
Budgets resolve_budgets(FileSystem& files, const Config& config, int threads, const DeviceProperties& device = {});

// The same on another machine, without touching this one: shares are of its installed memory and of its drives.
Budgets machine_budgets(const Machine& machine, const Config& config, int threads);

// Of a device's own memory, what a plan takes where the user does not say: what a desktop and its programs take grows
// while a run is under way; without one only the driver's own is lacking.
inline constexpr double kDeviceShareBesideDisplay = 0.5, kDeviceShare = 0.9;
double device_memory_share(const Machine& machine);

// Makes allocations that would bring the process above `ram` bytes of private memory fail, by RLIMIT_DATA. Reserved
// but untouched memory (thread stacks) counts there, so the limit leaves room for `threads` of them. Does nothing in
// builds with sanitizers, which do not start under such a limit.
void enforce_memory(int64_t ram, int threads);

// Threads that a run uses when none are given: one per core that this process may use.
int default_threads();

}  // namespace windlass
