#include <array>

#include "method/methods.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 5> kAll = {&kAdamw, &kAdalomo, &kLomo, &kForwardGradient, &kZerothOrder};
    return kAll;
}

}  // namespace windlass
