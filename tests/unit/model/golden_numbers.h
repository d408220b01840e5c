// golden_numbers.h: tensors of goldens, and how far numbers are from them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/safetensors.h"
#include "tests/unit/model/model_runner.h"

namespace windlass {

template <typename T>
std::vector<T> read_numbers(const SafetensorsReader& file, const std::string& name) {
    const auto& entries = file.entries();
    const auto entry = std::ranges::find(entries, name, &TensorEntry::name);
    if (entry == entries.end()) throw UserError(ExitCode::data, name, "is not in the golden");
    std::vector<T> values(static_cast<size_t>(entry->bytes) / sizeof(T));
    file.read(*entry, 0, std::as_writable_bytes(std::span(values)));
    return values;
}

inline double largest(std::span<const float> values) {
    double most = 0;
    for (const float value : values) most = std::max(most, std::abs(static_cast<double>(value)));
    return most;
}

// NaN counts as infinitely far.
inline double distance(std::span<const float> a, std::span<const float> b) {
    EXPECT_EQ(a.size(), b.size());
    double most = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        const double gap = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        most = gap <= most ? most : (std::isnan(gap) ? INFINITY : gap);
    }
    return most;
}

inline double norm(std::span<const float> values) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(sum);
}

inline double mean_loss(std::span<const float> losses, const TokenBatch& batch) {
    double sum = 0;
    for (const float loss : losses) sum += static_cast<double>(loss);
    return sum / static_cast<double>(batch.trained());
}

}  // namespace windlass
