#include "op/sample.h"

#include <algorithm>
#include <bit>

namespace windlass {
namespace {

constexpr int64_t kTokensMin = 32;
constexpr int kTangentsMax = 4;

OpSample sample_of(OpSpec spec, const OpSize& size, std::string shape) {
    OpSample sample{.spec = std::move(spec), .size = sample_size(size), .shape = std::move(shape), .tokens = {}};
    sample.size.sequence_length =
        std::clamp(power_of_two_below(size.tokens()), kTokensMin, sample_limits(size.device).tokens);
    sample.tokens = fmt::format("{}", sample.size.sequence_length);
    return sample;
}

}  // namespace

int64_t power_of_two_below(int64_t tokens) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
}

SampleLimits sample_limits(DeviceKind device) {
    constexpr SampleLimits kCpu{.side = 4096, .tokens = 1024, .row = 2048};
    constexpr SampleLimits kGpu{.side = 16384, .tokens = 8192, .row = 8192};
    return device == DeviceKind::cpu ? kCpu : kGpu;
}

OpSize sample_size(const OpSize& size) {
    return {.rows = 1,
            .device = size.device,
            .compute = size.compute,
            .k = std::min(size.k, kTangentsMax),
            .rank = size.rank,
            .threads = size.threads};
}

OpSample sample_rows(const OpSpec& spec, const OpSize& size) {
    return sample_of(spec, size, fmt::format("{}", spec.in[0].cols));
}

OpSample sample_product(const OpSpec& spec, const OpSize& size, int in_axis) {
    const Shape& whole = spec.weights[0];
    const int64_t side = sample_limits(size.device).side;
    const Shape weight{std::min(whole[0], side), std::min(whole[1], side)};
    OpSpec cut{.attrs = spec.attrs, .in = {{weight[in_axis]}}, .weights = {weight}};
    if (spec.weights.size() > 1) cut.weights.push_back({weight[1 - in_axis]});
    return sample_of(std::move(cut), size, fmt::format("{}x{}", weight[0], weight[1]));
}

}  // namespace windlass
