#include <array>

#include "plan/policies/policies.h"

namespace windlass {

std::span<const Policy* const> all_policies() {
    static constexpr std::array<const Policy*, 2> kAll = {&kInMemory, &kThreeTier};
    return kAll;
}

std::vector<bool> recompute_choices(const PlanRequest& request) {
    if (request.recompute == "true") return {true};
    if (request.recompute == "false") return {false};
    return {false, true};
}

}  // namespace windlass
