#include "method/noise/magnitude_limits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"

namespace windlass {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr int kLowerBits = 16;
constexpr uint32_t kMagnitudeBits = 0x7fffffffu, kLower = (uint32_t{1} << kLowerBits) - 1;

}  // namespace

void MagnitudeHistogram::add(std::span<const float> weights) {
    for (const float weight : weights) ++counts_[(std::bit_cast<uint32_t>(weight) & kMagnitudeBits) >> kLowerBits];
    total_ += std::ssize(weights);
}

float MagnitudeHistogram::limit(double share) const {
    WINDLASS_CHECK(share > 0 && share <= 1, "a share of {}", share);
    const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(total_)));
    int64_t found = 0;
    for (size_t bin = 0; bin < counts_.size(); ++bin) {
        found += counts_[bin];
        if (found >= wanted) return std::bit_cast<float>(static_cast<uint32_t>(bin) << kLowerBits | kLower);
    }
    WINDLASS_CHECK(false, "{} of {} weights", wanted, total_);
    return 0;
}

void set_magnitude_limits(ModelSpec& model, double share, const ReadMasters& masters) {
    std::vector<float> numbers;
    for (size_t index = 0; index < model.params.size(); ++index) {
        ParamSpec& param = model.params[index];
        if (param.shape.rank() < 2 || !param.trainable) continue;
        MagnitudeHistogram histogram;
        for (int64_t first = 0; first < param.numel(); first += kPieceElements) {
            numbers.resize(static_cast<size_t>(std::min(kPieceElements, param.numel() - first)));
            masters(static_cast<int>(index), first, numbers);
            histogram.add(numbers);
        }
        param.magnitude_limit = histogram.limit(share);
    }
}

}  // namespace windlass
