#include "op/sample.h"

#include <algorithm>
#include <bit>

namespace windlass {
namespace {

constexpr int64_t kSideMax = 4096;  // of a matrix: larger ones are cut into panels
constexpr int64_t kTokensMin = 32, kTokensMax = 1024;
constexpr int kTangentsMax = 4;

OpSample sample_of(OpSpec spec, const OpSize& size, std::string shape) {
    OpSample sample{.spec = std::move(spec), .size = sample_size(size), .shape = std::move(shape), .tokens = {}};
    sample.size.sequence_length = std::clamp(power_of_two_below(size.tokens()), kTokensMin, kTokensMax);
    sample.tokens = fmt::format("{}", sample.size.sequence_length);
    return sample;
}

}  // namespace

int64_t power_of_two_below(int64_t tokens) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
}

OpSize sample_size(const OpSize& size) {
    return {.rows = 1,
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
    const Shape weight{std::min(whole[0], kSideMax), std::min(whole[1], kSideMax)};
    OpSpec cut{.attrs = spec.attrs, .in = {{weight[in_axis]}}, .weights = {weight}};
    if (spec.weights.size() > 1) cut.weights.push_back({weight[1 - in_axis]});
    return sample_of(std::move(cut), size, fmt::format("{}x{}", weight[0], weight[1]));
}

}  // namespace windlass
