#include <algorithm>
#include <array>

#include "method/methods.h"
#include "method/projector/refresh.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 5> kAll = {&kAdamw, &kAdalomo, &kLomo, &kForwardGradient, &kZerothOrder};
    return kAll;
}

const Phase* find_phase(const TrainedModel& model) {
    static constexpr std::array<const Phase*, 1> kAll = {&kProjectorRefresh};
    const auto has = [&](const Phase* each) { return each->calls_for(model); };
    const auto found = std::ranges::find_if(kAll, has);
    return found == kAll.end() ? nullptr : *found;
}

}  // namespace windlass
