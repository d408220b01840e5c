#include "session/phase.h"

#include "base/error.h"
#include "base/math.h"
#include "config/choices.h"

namespace windlass {
namespace {

// At which one takes a fiftieth of a run of Llama 1.1B with 1,024 tokens a step (step_bench --refresh).
constexpr int64_t kUsualSteps = 1000;

std::string problem_of(const Config& config, const Phase* phase, const Recipe& recipe, const TrainedModel& model) {
    if (phase == nullptr) return "there are no projectors";
    if (std::string problem = phase->problem(recipe); !problem.empty()) return problem;
    if (compares_pairs(objective_of(config)))
        return fmt::format("it fits projectors to the loss of tokens, which objective {} has not", config.objective);
    if (is_kept_in_4_bits(model) || is_kept_in_8_bits(model))
        return fmt::format("it writes into weights, which weight_storage {} keeps as they were loaded",
                           config.weight_storage);
    return "";
}

}  // namespace

PhaseSettings phase_settings(const Config& config, const Recipe& recipe, const TrainedModel& model) {
    const Phase* const phase = find_phase(model);
    const std::string problem = problem_of(config, phase, recipe, model);
    if (!problem.empty() && config.lsp_refresh.value_or(0) > 0)
        throw UserError(ExitCode::usage, "lsp_refresh", "{} steps: {}", *config.lsp_refresh, problem)
            .hint("lsp_refresh: 0, or adapter: lsp with method: adamw and weight_storage: as_file");
    if (!problem.empty()) return {.key = &Config::lsp_refresh};
    return {.phase = phase,
            .key = &Config::lsp_refresh,
            .every = config.lsp_refresh.value_or(kUsualSteps),
            .rows = round_up(config.lsp_samples, int64_t{2}),
            .iterations = static_cast<int>(config.lsp_learn)};
}

ScheduleRequest phase_request(const PhaseSettings& settings, const Numerics& numerics) {
    return {.kind = ScheduleRequest::Kind::phase,
            .rows = numerics.micro_batch_size,
            .sequence_length = numerics.sequence_lengths.back(),
            .micro_batches = 2 * static_cast<int>(div_up(settings.rows / 2, numerics.micro_batch_size)),
            .phase = settings.phase,
            .iterations = settings.iterations};
}

bool phase_is_due(const PhaseSettings& settings, const RunProgress& progress) {
    return settings.every > 0 && progress.step % settings.every == 0 && progress.phase_before != progress.step + 1;
}

StepBatch phase_batch(const Session& session, DataPosition position) {
    const ScheduleRequest request = phase_request(session.phase, session.numerics());
    const int64_t half = session.phase.rows / 2, places = request.rows * request.micro_batches / 2;
    const std::vector<RowSamples> rows =
        session.data->read_training(session.data->training().take(position, session.phase.rows));
    std::vector<RowSamples> placed(rows.begin(), rows.begin() + half);
    placed.resize(static_cast<size_t>(places));  // all padding
    placed.insert(placed.end(), rows.begin() + half, rows.end());
    return {placed, request.rows, request.micro_batches, request.sequence_length, 0};
}

}  // namespace windlass
