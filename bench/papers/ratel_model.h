// ratel_model.h: what a training step of Ratel (arXiv 2403.06504) moves and computes, and the drives that it does it
// on.
//
// Plain arithmetic on a GPT shape. Weights are fp16 with an fp32 master and two fp32 moments, one file for each of the
// four matrices of a layer and each of its four forms; vectors are below the size that is swapped and are left out.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "schedule/machine.h"

namespace windlass {

struct GptShape {
    int layers = 0;
    int64_t width = 0;
    int64_t sequence_length = 1024;

    // Elements of a layer's matrices in the order in which backward gives their gradients.
    std::array<int64_t, 4> matrices() const {
        return {4 * width * width, 4 * width * width, width * width, 3 * width * width};
    }
    double layer_params() const { return 12.0 * static_cast<double>(width * width); }
    double params() const { return layers * layer_params(); }
};

inline constexpr GptShape kGpt13b = {40, 5120};
inline constexpr GptShape kGpt175b = {96, 12288};

inline constexpr int64_t kHalfBytes = 2;    // of a weight that passes read, of a gradient, of a kept value
inline constexpr int64_t kMasterBytes = 4;  // of a master and of each moment

// Seconds of the device for one token of one layer. What is not a product of matrices is bound by the device's memory.
struct LayerSeconds {
    double forward = 0;
    double backward = 0;  // without recomputing
};
LayerSeconds layer_seconds(const GptShape& shape, const Machine& machine);

// A value of forward that backward wants: kept, it need not be recomputed.
struct KeptValue {
    double bytes = 0;    // of a token in a layer
    double seconds = 0;  // of the device to compute it again
};
// By what a byte saves, the best first: the paper's order of swapping.
std::vector<KeptValue> kept_values(const GptShape& shape, const Machine& machine);

// Drives as one array that moves files in turn, each in batches: so many requests are handed over, and all of them
// awaited before the next batch. A batch takes a latency, and its bytes at the rate of the drives or of the socket that
// they pass, whichever is less.
inline constexpr int64_t kBatchBytes = 64 << 20;  // the artifact's: two threads, each with 32 requests of 1 MiB
struct DriveArray {
    int drives = 1;
    double yield = 1;            // of a drive's rating
    double batch_latency_s = 0;  // while nothing else is under way
    double socket_bytes_per_s = 0;

    double read_bytes_per_s() const;
    double write_bytes_per_s() const;
    // What could have moved at these rates in the time that a file takes: its bytes, and the latencies of its batches.
    double read_cost_bytes(int64_t file_bytes) const;
    double write_cost_bytes(int64_t file_bytes) const;
};
// Batches of a file.
int64_t batch_count(int64_t file_bytes);

// A machine with these drives. Its rates have no latency: that is in the cost of files.
Machine with_drives(Machine machine, const DriveArray& array);
// The same with the latency in its rates, as if every transfer were of whole batches.
Machine with_late_drives(Machine machine, const DriveArray& array);

}  // namespace windlass
