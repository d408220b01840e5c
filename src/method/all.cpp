#include <algorithm>
#include <array>

#include "method/methods.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 5> kAll = {&kAdamw, &kAdalomo, &kLomo, &kForwardGradient, &kZerothOrder};
    return kAll;
}

std::span<const Phase* const> all_phases() {
    static constexpr std::array<const Phase*, 1> kAll = {&kProjectorRefresh};
    return kAll;
}

const Phase* find_phase(const TrainedModel& model) {
    const auto has = [&](const Phase* each) { return each->calls_for(model); };
    const auto found = std::ranges::find_if(all_phases(), has);
    return found == all_phases().end() ? nullptr : *found;
}

}  // namespace windlass
