#include <array>

#include "method/methods.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 5> kAll = {&kAdalomo, &kAdamw, &kForwardGradient, &kLomo, &kZerothOrder};
    return kAll;
}

}  // namespace windlass
