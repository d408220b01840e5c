#include "run/step_outputs.h"

#include <cmath>
#include <numeric>

#include "base/index.h"
#include "base/math.h"
#include "method/norm.h"
#include "op/loops_cpu.h"
#include "schedule/numerics.h"

namespace windlass {

void StepOutputs::read(const BufferSlice& output, std::span<float> numbers) const {
    arenas_.read(set_.buffer(schedule_, output.buffer), output.offset, numbers);
}

double StepOutputs::sum(std::span<const BufferSlice> outputs) const {
    std::vector<float> losses(at(schedule_.size.tokens()));
    double sum = 0;
    for (const BufferSlice& output : outputs) {
        read(output, losses);
        for (const float loss : losses) sum += loss;
    }
    return sum;
}

std::vector<double> StepOutputs::row_sums(std::span<const BufferSlice> outputs) const {
    std::vector<double> sums;
    const std::vector<float> all = numbers(outputs);
    for (auto row = all.begin(); row != all.end(); row += schedule_.size.sequence_length)
        sums.push_back(std::accumulate(row, row + schedule_.size.sequence_length, 0.0));
    return sums;
}

std::vector<float> StepOutputs::numbers(std::span<const BufferSlice> outputs) const {
    const size_t tokens = at(schedule_.size.tokens());
    std::vector<float> numbers(outputs.size() * tokens);
    for (size_t index = 0; index < outputs.size(); ++index)
        read(outputs[index], std::span(numbers).subspan(index * tokens, tokens));
    return numbers;
}

std::vector<double> StepOutputs::token_losses() const {
    const std::vector<float> losses = numbers(schedule_.outputs);
    return {losses.begin(), losses.end()};
}

std::vector<float> StepOutputs::logits(int64_t vocab) const {
    const BufferSpec& buffer = set_.buffer(schedule_, schedule_.outputs[0].buffer);
    const int64_t rows = schedule_.size.rows;
    std::vector<float> logits(at(rows * vocab));
    std::vector<bf16> narrow(at(vocab));
    for (int64_t row = 0; row < rows; ++row) {
        const std::span<float> to = std::span(logits).subspan(at(row * vocab), at(vocab));
        const int64_t begin = row * div_exact(buffer.bytes, rows);
        if (schedule_.size.compute == DType::f32) {
            arenas_.read(buffer, begin, to);
            continue;
        }
        arenas_.read(buffer, begin, std::span(narrow));
        read_row(Tensor(schedule_.size.compute, {1, vocab}, narrow.data()), 0, vocab, to.data());
    }
    return logits;
}

// Of each parameter first, 0 for frozen ones.
double StepOutputs::norm(const TrainedModel& model) const {
    const BufferSpec& buffer = set_.buffer(schedule_, set_.ids.squares);
    std::vector<double> all(at(buffer.bytes) / sizeof(double));
    arenas_.read(buffer, 0, std::span(all));
    std::vector<double> sums;
    for (int index = 0; index < model.param_size(); ++index) {
        const Param param = model.param(index);
        const int64_t first = set_.ids.params[at(index)].squares.offset / static_cast<int64_t>(sizeof(double));
        const int64_t count = param.trains() ? div_up(param.numel(), kNormChunkElements) : 0;
        sums.push_back(tree_sum(std::span(all).subspan(at(first), at(count))));
    }
    return std::sqrt(tree_sum(sums));
}

std::span<const BufferSlice> StepOutputs::of(int result) const {
    const auto count = static_cast<size_t>(schedule_.micro_batches);
    return std::span(schedule_.outputs).subspan(static_cast<size_t>(result) * count, count);
}

std::optional<std::vector<double>> step_losses(const StepOutputs& outputs, const Recipe& recipe,
                                               std::span<const Batch> micro, const ObjectiveRows* objective,
                                               GeneratedAnswers* answers) {
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
