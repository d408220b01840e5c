#include "infer/evaluate.h"

#include <cmath>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "infer/evaluate_step.h"
#include "run/objective.h"
#include "schedule/lower.h"

namespace windlass {

double row_loss(const StepReport& report, int64_t row, int64_t sequence_length) {
    double sum = 0;
    for (int64_t i = 0; i < sequence_length; ++i)
        sum += report.token_losses[static_cast<size_t>(row * sequence_length + i)];
    return sum;
}

StepReport evaluate_step(Engine& engine, const StepBatch& batch, bool token_losses, HeadResult result) {
    const EngineSetup& setup = engine.setup();
    const std::string name =
        schedule_name({.kind = ScheduleRequest::Kind::eval, .sequence_length = batch.sequence_length()});
    const Schedule* schedule = setup.schedules.find(name);
    WINDLASS_CHECK(schedule != nullptr, "there is no schedule {}", name);
    StepInput input{.micro = batch.micro(), .params = {.seed = setup.seed, .step = 1, .head = {.result = result}}};
    return engine.evaluate(*schedule, input, token_losses);
}

StepBatch batch_of(const Engine& engine, std::span<const RowSamples> rows) {
    const Numerics& numerics = engine.setup().numerics;
    return StepBatch(rows, numerics.micro_batch_size, numerics.micro_batches,
                     bucket_for(numerics.sequence_lengths, rows), 0);
}

int64_t rows_per_step(const Engine& engine) {
    return engine.setup().numerics.micro_batch_size * engine.setup().numerics.micro_batches;
}

double EvalResult::loss() const {
    return target_tokens > 0 ? loss_sum / static_cast<double>(target_tokens) : std::numeric_limits<double>::quiet_NaN();
}

double EvalResult::perplexity() const {
    return std::exp(loss());
}

EvalResult evaluate_rows(Engine& engine, int64_t row_count, const ReadRows& read) {
    const int64_t start = now_ns();
    EvalResult result;
    for (int64_t first = 0; first < row_count;) {
        const std::vector<RowSamples> rows = read(first, std::min(rows_per_step(engine), row_count - first));
        WINDLASS_CHECK(!rows.empty(), "row {} of {} cannot be read", first, row_count);
        const StepBatch batch = batch_of(engine, rows);
        result.loss_sum += evaluate_step(engine, batch, false).loss_sum;
        result.target_tokens += batch.target_tokens();
        result.rows += std::ssize(rows);
        first += std::ssize(rows);
    }
    result.seconds = seconds_since(start);
    return result;
}

int64_t evaluate_exact(Engine& engine, int64_t row_count, const ReadRows& read) {
    int64_t exact = 0;
    for (int64_t first = 0; first < row_count;) {
        const std::vector<RowSamples> rows = read(first, std::min(rows_per_step(engine), row_count - first));
        WINDLASS_CHECK(!rows.empty(), "row {} of {} cannot be read", first, row_count);
        const StepBatch batch = batch_of(engine, rows);
        const StepReport report = evaluate_step(engine, batch, true, HeadResult::is_wrong);
        for (int64_t row = 0; row < std::ssize(rows); ++row)
            exact += row_loss(report, row, batch.sequence_length()) == 0;
        first += std::ssize(rows);
    }
    return exact;
}

ChoiceResult evaluate_choices(Engine& engine, const std::vector<ChoiceRow>& rows, CandidateScore score) {
    const int64_t start = now_ns();
    std::vector<RowSamples> pending;
    std::vector<double> losses;
    const auto flush = [&] {
        if (pending.empty()) return;
        const StepBatch batch = batch_of(engine, pending);
        const StepReport report = evaluate_step(engine, batch, true);
        for (int64_t row = 0; row < std::ssize(pending); ++row)
            losses.push_back(row_loss(report, row, batch.sequence_length()));
        pending.clear();
    };
    for (const ChoiceRow& row : rows) {
        for (const Sample& candidate : row.candidates) {
            pending.push_back({candidate});
            if (std::ssize(pending) == rows_per_step(engine)) flush();
        }
    }
    flush();
    ChoiceResult result{.rows = std::ssize(rows)};
    std::span<const double> rest(losses);
    for (const ChoiceRow& row : rows) {
        std::vector<CandidateLoss> candidates;
        for (const Sample& candidate : row.candidates)
            candidates.push_back({rest[candidates.size()], candidate.trained_count()});
        rest = rest.subspan(candidates.size());
        result.chosen.push_back(best_candidate(candidates, score == CandidateScore::mean));
        result.right += result.chosen.back() == row.right;
        result.loss_sum += candidates[static_cast<size_t>(row.right)].loss_sum;
        result.target_tokens += candidates[static_cast<size_t>(row.right)].target_tokens;
    }
    result.seconds = seconds_since(start);
    return result;
}

}  // namespace windlass
