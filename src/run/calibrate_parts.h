// calibrate_parts.h: what the probe measures, part by part; for the .cpp files of this floor, and for
// benchmarks. Each fills its fields.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "base/file.h"
#include "device/device.h"
#include "schedule/machine.h"

namespace windlass {

// The best of some rounds, after one that warms up: the time without other people's work.
double best_seconds(const std::function<void()>& work);
// The median of them: what steps take on the average goes by this.
double usual_seconds(const std::function<void()>& work);
// To the four digits that a measurement is good for.
double rounded(double rate);

// Products by shape and type, attention, and the cost of a call.
void calibrate_products(Device& device, Stream& stream, Machine& machine);
// Copies of `copy_bytes` bytes by all threads, by one, and by two at once; checksums; handing tasks to another thread.
void calibrate_memory(Stream& stream, int64_t copy_bytes, Machine& machine);
// A drive, through the code that training moves with. The file is removed.
void calibrate_disk(FileSystem& files, const std::string& folder, Machine& machine);
// Random numbers: a large bf16 matrix is updated along one direction and perturbed along another.
void calibrate_noise(Device& device, Stream& stream, int64_t rows, int64_t cols, Machine& machine);
inline constexpr int64_t kUpdateSide = 2048;  // of a matrix that is one chunk, as plans update them
// Each kind of update that methods have, by update_key(), of matrices [side, side]: bytes read plus written a second.
std::map<std::string, double, std::less<>> calibrate_update_kinds(Device& device, Stream& stream, int64_t side);
struct UpdateRates {
    double bytes_per_s = 0;  // alone
    double busy_factor = 1;  // of that, what is left during traffic
};
// The update pass on a stream of the CPU; each of `traffic` is done over and over by a thread of its own.
UpdateRates update_rates(Stream& stream, std::span<const std::function<void()>> traffic);
// The same during copies and, where `folder` is not empty, a drive that reads and writes.
void calibrate_update(FileSystem& files, const std::string& folder, Stream& stream, Machine& machine);

}  // namespace windlass
