#include "method/forward_only/magnitude_limits.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "model/load.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace {

constexpr int64_t kReadElements = int64_t{1} << 20;
constexpr int kLowerBits = 16;
constexpr uint32_t kMagnitudeBits = 0x7fffffffu, kLower = (uint32_t{1} << kLowerBits) - 1;

MagnitudeHistogram histogram_of(const ParamSpec& param, int index, const ReadMasters& masters) {
    MagnitudeHistogram histogram;
    std::vector<float> numbers;
    for (int64_t first = 0; first < param.numel(); first += kReadElements) {
        numbers.resize(static_cast<size_t>(std::min(kReadElements, param.numel() - first)));
        masters(index, first, numbers);
        histogram.add(numbers);
    }
    return histogram;
}

// Rounding keeps the order of magnitudes: what was rounded up to the limit is below it as well.
float limit_of(const Param& param, const MagnitudeHistogram& histogram, double share) {
    if (param.storage.dtype != DType::f8_e4m3) return histogram.limit(share);
    float limit = histogram.at_limit(share);
    std::byte kept{};
    encode_kept(param, {&limit, 1}, {&kept, 1});
    decode_kept(param.storage, {&kept, 1}, 0, {&limit, 1});
    return limit;
}

}  // namespace

void MagnitudeHistogram::add(std::span<const float> weights) {
    for (const float weight : weights) ++counts_[(std::bit_cast<uint32_t>(weight) & kMagnitudeBits) >> kLowerBits];
    total_ += std::ssize(weights);
}

float MagnitudeHistogram::of_bin(size_t bin, uint32_t lower) {
    return std::bit_cast<float>(static_cast<uint32_t>(bin) << kLowerBits | lower);
}

float MagnitudeHistogram::limit(double share) const {
    return of_bin(bin_of(share), kLower);
}

float MagnitudeHistogram::largest() const {
    const auto last = std::find_if(counts_.rbegin(), counts_.rend(), [](int64_t count) { return count > 0; });
    return last == counts_.rend() ? 0.0f : of_bin(static_cast<size_t>(counts_.rend() - last) - 1, 0);
}

size_t MagnitudeHistogram::bin_of(double share) const {
    WINDLASS_CHECK(share > 0 && share <= 1, "a share of {}", share);
    const auto wanted = static_cast<int64_t>(std::ceil(share * static_cast<double>(total_)));
    int64_t found = 0;
    for (size_t bin = 0; bin < counts_.size(); ++bin) {
        found += counts_[bin];
        if (found >= wanted) return bin;
    }
    WINDLASS_CHECK(false, "{} of {} weights", wanted, total_);
    return 0;
}

void set_by_magnitudes(TrainedModel& model, double sparse_share, const ReadMasters& masters) {
    for (int index = 0; index < model.param_size(); ++index) {
        const Param param = model.param(index);
        const bool is_scaled = param.storage.dtype == DType::f8_e4m3;
        const bool is_sparse = sparse_share < 1 && param.spec.shape.rank() >= 2 && param.trains();
        if (!is_scaled && !is_sparse) continue;
        const MagnitudeHistogram histogram = histogram_of(param.spec, index, masters);
        if (is_scaled) {
            const bool half = param.spec.file_dtype == DType::f16;
            model.storage[at(index)].scale_exponent =
                e4m3_scale_exponent(histogram.largest(), half ? kE4m3HalfScaleMin : kE4m3ScaleMin,
                                    half ? kE4m3HalfScaleMax : kE4m3ScaleMax);
        }
        if (is_sparse) model.perturb[at(index)].magnitude_limit = limit_of(param, histogram, sparse_share);
    }
}

}  // namespace windlass
