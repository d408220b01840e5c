// moments.h: moments of a step's update that are never kept: rebuilt from what the last steps found.
//
// A step's estimate of the gradient is a mean of directions times numbers, and both outlive the step for nothing: the
// numbers in the log, the directions in their counters. So momentum and Adam cost no bytes of state, only random
// numbers, as many steps' worth of them as the window has. The formulas are in README.md next to this file.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace windlass {

enum class NoiseMoments : uint8_t {
    none,   // sgd
    first,  // momentum
    both,   // adam
};
// "sgd", "momentum", "adam": as in configuration.
std::string_view moments_name(NoiseMoments moments);
std::optional<NoiseMoments> moments_from_name(std::string_view name);

inline constexpr int kReplayWindow = 16;      // by default
inline constexpr int kReplayWindowMax = 256;  // steps

// What all steps of a run make of the steps before them.
struct MomentRule {
    NoiseMoments moments = NoiseMoments::none;
    int window = 1;                            // steps, the one that is applied included
    double beta1 = 0, beta2 = 0, epsilon = 0;  // for the moments that there are
    bool operator==(const MomentRule&) const = default;

    int history() const { return window - 1; }
};

// Weights of a mean over `count` steps, the newest first, that decay by beta from step to step: beta^j / (1 + beta +
// ...
// + beta^(count - 1)). What is cut off after the window, or was not there yet, is in nobody's share: that is the bias
// correction.
std::vector<double> decaying_shares(double beta, int64_t count);

}  // namespace windlass
