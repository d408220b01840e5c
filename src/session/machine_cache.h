// machine_cache.h: the probe of this machine, measured once and kept; editable text.
#pragma once

#include <span>
#include <string>

#include "base/file.h"
#include "device/device.h"
#include "run/calibrate.h"
#include "schedule/kernel_rate.h"
#include "schedule/machine.h"

namespace windlass {

// Where the probe of this instruction set, thread count and drive is kept; empty where there is no cache.
std::string machine_cache_path(const std::string& disk_folder, int threads);

// The kept probe, or a new one (a few seconds) with a line that says so. disk_folder may be empty. A drive without room
// for a probe is assumed (assume_drive). Throws UserError(no_fit) where a probe needs more memory than is left.
Machine known_machine(FileSystem& files, const std::string& disk_folder, int threads);

// Whether a drive has room for a probe; true without one.
bool has_room_to_measure(FileSystem& files, const std::string& disk_folder);
// The rates of a usual drive, of unknown size, with a warning.
void assume_drive(FileSystem& files, const std::string& disk_folder, Machine& machine);

// Keeps one that was measured elsewhere. A cache that cannot be written is a note.
void keep_machine(FileSystem& files, const std::string& disk_folder, int threads, const Machine& machine);

// Measures the kernels among these that the machine has no rate of (seconds), and keeps them with its probe.
// Where that fails (a limit on memory), a warning says so and the machine stays as it is.
void add_kernels(FileSystem& files, const std::string& disk_folder, std::span<const KernelCase> cases, int threads,
                 Machine& machine);

// Gives the machine what a CUDA device and its link do, kept or measured (a few seconds), with a line that says so: it
// is then a machine with a device in addition to its host.
void add_device(FileSystem& files, DeviceId id, const DeviceProbe& probe, Machine& machine);
// Measures again, and keeps it.
void measure_device(FileSystem& files, DeviceId id, const DeviceProbe& probe, Machine& machine);
// The kernels of these that the device has no rate of.
void add_device_kernels(FileSystem& files, DeviceId id, std::span<const KernelCase> cases, Machine& machine);

// For a kept probe that is wrong: the next command measures again.
void forget_machine(FileSystem& files, const std::string& disk_folder, int threads);
void forget_device(FileSystem& files, DeviceId id, int threads);

}  // namespace windlass
