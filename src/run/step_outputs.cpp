#include "run/step_outputs.h"

#include <numeric>

namespace windlass {

double StepOutputs::sum(std::span<const BufferSlice> outputs) const {
    double sum = 0;
    for (const BufferSlice& output : outputs) {
        const Lease lease = arenas_.lease(set_.buffer(schedule_, output.buffer), false);
        const float* losses = reinterpret_cast<const float*>(lease.data() + output.offset);
        for (int64_t token = 0; token < schedule_.size.tokens(); ++token) sum += losses[token];
    }
    return sum;
}

std::vector<double> StepOutputs::row_sums(std::span<const BufferSlice> outputs) const {
    std::vector<double> sums;
    for (const BufferSlice& output : outputs) {
        const Lease lease = arenas_.lease(set_.buffer(schedule_, output.buffer), false);
        const float* losses = reinterpret_cast<const float*>(lease.data() + output.offset);
        for (int64_t row = 0; row < schedule_.size.rows; ++row, losses += schedule_.size.row_length)
            sums.push_back(std::accumulate(losses, losses + schedule_.size.row_length, 0.0));
    }
    return sums;
}

}  // namespace windlass
