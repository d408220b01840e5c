// measure.h: how benchmarks take time: medians, since machines are shared.
#pragma once

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace windlass {

template <typename Work>
double seconds_of(Work work) {
    const int64_t start = now_ns();
    work();
    return seconds_since(start);
}

inline double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Of so many rounds.
template <typename Work>
double median_seconds(int rounds, Work work) {
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) seconds.push_back(seconds_of(work));
    return median(std::move(seconds));
}

}  // namespace windlass
