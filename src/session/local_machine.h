// local_machine.h: the machine that the program runs on, with the device that computes there: what they do, measured
// once and kept, and what of their memory may be used.
#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "config/config.h"
#include "device/device.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "schedule/kernel_rate.h"
#include "schedule/machine.h"
#include "session/budget.h"

namespace windlass {

struct LocalMachine {
    DeviceId device;
    Machine machine;
    Budgets budgets;
    MemoryLimit memory;  // that `budgets.ram` follows from
    std::string note;    // on the device; empty: nothing that the user should know
};

// As the configuration's device, device_memory, ram, ssd_dir and rates say. Kernels among `cases` that have no rate yet
// are measured. Throws UserError(gpu) where the device, its driver or the library of its products is not there.
LocalMachine local_machine(FileSystem& files, const Config& config, int threads, std::span<const KernelCase> cases);

// The cached profile is wrong (it was measured while others used the machine): the next command measures again.
void forget_local_machine(FileSystem& files, const Config& config, int threads);

// What link_rate and disk_rate ask for.
Emulation emulation_of(const Config& config);

}  // namespace windlass
