#include "perturb/moments.h"

#include <array>

namespace windlass {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"sgd", "momentum", "adam"};

}  // namespace

std::string_view moments_name(NoiseMoments moments) {
    return kNames[static_cast<size_t>(moments)];
}

std::optional<NoiseMoments> moments_from_name(std::string_view name) {
    for (size_t index = 0; index < kNames.size(); ++index) {
        if (kNames[index] == name) return static_cast<NoiseMoments>(index);
    }
    return std::nullopt;
}

std::vector<double> decaying_shares(double beta, int64_t count) {
    std::vector<double> shares;
    double share = 1, sum = 0;
    for (int64_t index = 0; index < count; ++index) {
        shares.push_back(share);
        sum += share;
        share *= beta;
    }
    for (double& each : shares) each /= sum;
    return shares;
}

}  // namespace windlass
