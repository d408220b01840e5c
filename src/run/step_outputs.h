// step_outputs.h: what a step leaves for the host: losses of tokens and sums of squares, added in one order
// everywhere.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "run/arenas.h"
#include "run/generated_answers.h"
#include "schedule/schedule.h"

namespace windlass {

// Outputs of one schedule: f32, a number for each token of its micro-batches. They stay in the arena until the next
// schedule runs.
class StepOutputs {
  public:
    StepOutputs(const ScheduleSet& set, const Schedule& schedule, const Arenas& arenas)
        : set_(set), schedule_(schedule), arenas_(arenas) {}

    double sum(std::span<const BufferSlice> outputs) const;
    // By row, output after output.
    std::vector<double> row_sums(std::span<const BufferSlice> outputs) const;
    // One for each token.
    std::vector<float> numbers(std::span<const BufferSlice> outputs) const;
    // All of them.
    std::vector<double> token_losses() const;
    // Decoding: of the last token of each row, [rows, vocab].
    std::vector<float> logits(int64_t vocab) const;
    // Those of one of the numbers that the recipe decides by: one for each micro-batch.
    std::span<const BufferSlice> of(int result) const;
    // Of all gradients.
    double norm(const TrainedModel& model) const;
    int results() const { return static_cast<int>(schedule_.outputs.size()) / schedule_.micro_batches; }

  private:
    void read(const BufferSlice& output, std::span<float> numbers) const;

    const ScheduleSet& set_;
    const Schedule& schedule_;
    const Arenas& arenas_;
};

// What the recipe decides by: sums of losses, or what the objective makes of them. With `answers` they are
// given what a round found, and nothing is to be decided while they are not done.
std::optional<std::vector<double>> step_losses(const StepOutputs& outputs, const Recipe& recipe,
                                               std::span<const Batch> micro, const ObjectiveRows* objective,
                                               GeneratedAnswers* answers);

}  // namespace windlass
