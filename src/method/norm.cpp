#include "method/norm.h"

#include <algorithm>
#include <array>

#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "method/param_kernel.h"

namespace windlass {
namespace {

// Eight running sums keep the adders busy; which element goes where is fixed, so the result is.
double chunk_sum(const float* values, int64_t count) {
    constexpr int64_t kLanes = kNormLanes;
    std::array<double, kLanes> sums{};
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
            const double x = values[i + lane];
            sums[static_cast<size_t>(lane)] += x * x;
        }
    }
    for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

void sum_squares(const float* values, int64_t count, std::span<double> partial, Stream& stream) {
    WINDLASS_CHECK(static_cast<int64_t>(partial.size()) == div_up(count, kNormChunkElements),
                   "{} partial sums for {} elements", partial.size(), count);
    if (stream.device() == DeviceKind::cuda) {
        const SquaresOf gradient{values, partial.data(), count};
        return kSumSquaresCuda({&gradient, 1}, stream);
    }
    cpu_team(stream).parallel_for(static_cast<int64_t>(partial.size()), [&](int64_t chunk, int) {
        const int64_t first = chunk * kNormChunkElements;
        partial[static_cast<size_t>(chunk)] = chunk_sum(values + first, std::min(kNormChunkElements, count - first));
    });
}

namespace {

void sum_squares_of(const ParamCall& call, Stream& stream) {
    sum_squares(call.gradient, call.count, {call.squares, static_cast<size_t>(div_up(call.count, kNormChunkElements))},
                stream);
}

// A parameter takes a card less time than launching a kernel does, or leaves most of the card idle; a block's together
// do neither.
void sum_squares_of_all(std::span<const ParamCall> calls, Stream& stream) {
    std::vector<SquaresOf> gradients;
    gradients.reserve(calls.size());
    for (const ParamCall& call : calls) gradients.push_back({call.gradient, call.squares, call.count});
    kSumSquaresCuda(gradients, stream);
}

}  // namespace

const ParamKernel kSumSquares{.name = "squares",
                              .uses = {{ParamSlot::gradient}, {ParamSlot::squares, Access::write}},
                              .grain = Grain::parameter,
                              .bytes_per_element = 4,
                              .cells = {sum_squares_of, nullptr, sum_squares_of},
                              .joined_cells = {nullptr, nullptr, sum_squares_of_all}};

double tree_sum(std::span<const double> values) {
    if (values.empty()) return 0;
    if (values.size() == 1) return values[0];
    const size_t half = values.size() / 2;
    return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

}  // namespace windlass
