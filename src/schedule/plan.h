// plan.h: where things live and when they move. A Plan only places and orders: it never changes a bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace windlass {

enum class Home : uint8_t { memory, disk };

// vertical: all micro-batches pass a block before the next block, so weights cross each link once a sweep.
// horizontal: each micro-batch makes its whole way, so activations of one are alive at a time; for weights that stay.
enum class MicroOrder : uint8_t { vertical, horizontal };

struct Plan {
    std::string policy;  // the name of the policy that made it
    DeviceId device;
    int threads = 1;
    Home weights = Home::memory;
    Home state = Home::memory;  // moments and low halves
    Home gradients = Home::memory;
    MicroOrder order = MicroOrder::vertical;
    bool recompute = false;  // blocks keep their input only
    int read_ahead = 1;      // slices, and chunks of the update, under way beside the one in use

    bool uses_disk() const { return weights == Home::disk || state == Home::disk || gradients == Home::disk; }
};

std::string_view home_name(Home home);

}  // namespace windlass
