#include <array>

#include "method/methods.h"

namespace windlass {

std::span<const Method* const> all_methods() {
    static constexpr std::array<const Method*, 5> kAll = {&kAdamw, &kZerothOrder, &kForwardGradient, &kLomo, &kLsp};
    return kAll;
}

}  // namespace windlass
