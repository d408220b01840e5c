#include "method/forward_only/published_steps.h"

#include <algorithm>

namespace windlass {

double steps_for_one_of_adam(double published_passes, int passes_a_step) {
    constexpr double kAdamSteps = 625;
    return std::max(1.0, published_passes / passes_a_step / kAdamSteps);
}

}  // namespace windlass
