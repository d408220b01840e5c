// budget.h: what memory and disk a run may use, and what the process uses before it starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "config/config.h"
#include "plan/no_fit.h"
#include "plan/planner.h"

namespace windlass {

// What this process may still take of memory, and the limit that holds it there.
struct MemoryLimit {
    int64_t left = 0;       // bytes, in addition to what the process has
    int64_t whole = 0;      // of the limit, what is used included
    std::string_view name;  // "control group", "ulimit -v", "ulimit -d"; empty: no less than the machine has available
};
// Of the machine's available memory, the process's control groups, RLIMIT_AS and RLIMIT_DATA, the one with the least
// left. The last two count what is reserved: `threads` stacks more are left out.
MemoryLimit memory_limit(FileSystem& files, int threads);
// How to raise it, to be typed.
std::string larger_limit(const MemoryLimit& limit);
// Says in a refusal that this limit, not the machine, is what memory is short of, and leaves out what it would not
// allow; nothing if it has no name.
void name_limit(const MemoryLimit& limit, NoFit& none);
// Private memory of this process that is resident now.
int64_t private_memory();
// The most that private_memory() was, sampled by the kernel (VmHWM without file pages).
int64_t private_memory_peak();

// The budgets of a configuration. `process` is private_memory() now and an allowance for what comes up later:
// kernels compiled at run time, stacks and heaps of worker threads, batches. Under a limit with a name, host and
// emulated device together get no more than it leaves; its name goes if a smaller `ram` is what counts.
Budgets resolve_budgets(FileSystem& files, const Config& config, int threads, MemoryLimit& memory,
                        const DeviceProperties& device = {});

// The same on another machine, without touching this one: shares are of its installed memory and of its drives.
Budgets machine_budgets(const Machine& machine, const Config& config, int threads);

// Of a device's own memory, what a plan takes where the user does not say: what a desktop and its programs take grows
// while a run is under way; without one only the driver's own is lacking.
inline constexpr double kDeviceShareBesideDisplay = 0.5, kDeviceShare = 0.9;
double device_memory_share(const Machine& machine);

// While it lives, allocations that would bring the process above `ram` bytes of private memory fail, by RLIMIT_DATA; a
// lower limit stays. Reserved but untouched memory (thread stacks) counts there, so the limit leaves room for `threads`
// of them. Does nothing in builds with sanitizers, which do not start under such a limit.
class EnforcedMemory {
  public:
    EnforcedMemory(int64_t ram, int threads);
    EnforcedMemory(const EnforcedMemory&) = delete;
    EnforcedMemory& operator=(const EnforcedMemory&) = delete;
    ~EnforcedMemory();  // the limit is what it was: no later run of this process takes it for the user's

  private:
    std::optional<uint64_t> before_;
};

// Threads that a run uses when none are given: one per core that this process may use, at most as many as the quota
// of its control groups has whole processors.
int default_threads(FileSystem& files);

}  // namespace windlass
