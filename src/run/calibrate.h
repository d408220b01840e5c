// calibrate.h: measures this machine: products, calls, copies, the update pass, and a drive, with the code that trains.
#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "schedule/kernel_rate.h"
#include "schedule/machine.h"

namespace windlass {

// A few seconds, and about 256 MiB. `disk_folder` empty: the drive's rates stay zero. The probe's file is removed. A
// machine without a device beside its host has a link all the same: copies inside its memory.
Machine calibrate_machine(FileSystem& files, const std::string& disk_folder, int threads);

// The kernels that the machine has no rate of: half a second each at most, and some 300 MiB.
void calibrate_kernels(std::span<const KernelCase> cases, int threads, Machine& machine);

}  // namespace windlass
