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

std::vector<float> StepOutputs::numbers(std::span<const BufferSlice> outputs) const {
    std::vector<float> numbers;
    for (const BufferSlice& output : outputs) {
        const Lease lease = arenas_.lease(set_.buffer(schedule_, output.buffer), false);
        const float* first = reinterpret_cast<const float*>(lease.data() + output.offset);
        numbers.insert(numbers.end(), first, first + schedule_.size.tokens());
    }
    return numbers;
}

std::span<const BufferSlice> StepOutputs::of(int result) const {
    const auto count = static_cast<size_t>(schedule_.micro_count);
    return std::span(schedule_.outputs).subspan(static_cast<size_t>(result) * count, count);
}

std::optional<std::vector<double>> step_losses(const StepOutputs& outputs, const Recipe& recipe,
                                               std::span<const Batch> micro, const ObjectiveRows* objective,
                                               WrittenAnswers* answers) {
    if (answers != nullptr) {
        for (int point = 0; point < outputs.results(); ++point)
            answers->take(point, outputs.numbers(outputs.of(point)));
        return answers->is_done() ? std::optional(answers->losses()) : std::nullopt;
    }
    if (objective != nullptr)
        return judge_step(*objective, recipe, micro, [&](int result) { return outputs.row_sums(outputs.of(result)); });
    std::vector<double> losses;
    for (int result = 0; result < outputs.results(); ++result) losses.push_back(outputs.sum(outputs.of(result)));
    return losses;
}

}  // namespace windlass
