// no_fit.h: why nothing fits: the need, the budgets, and the smallest changes that would be enough.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace windlass {

// Between what may be tried: a line each.
inline constexpr std::string_view kNextWayOut = "\n   or: ";

// A value and no exception: the caller may try fewer rows, another state format or another method next.
struct NoFit {
    std::string needs, allowed;         // "50.45 GiB of memory and 179.49 GiB of disk"
    std::vector<std::string> ways_out;  // "--ram 51GiB --policy three_tier": the first can be typed
    // Of a step of what fits and is no faster than a rival. 0: nothing was found, or what may be faster does not fit.
    double slower_seconds = 0;

    UserError error() const;  // no_fit
};

}  // namespace windlass
