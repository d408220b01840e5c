#include "session/next_batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"

namespace windlass {
namespace {

// Row by row; none where nothing is compared with a reference.
std::vector<double> references_of(const std::vector<double>& all, const std::vector<PackedRow>& order) {
    std::vector<double> references;
    if (all.empty()) return references;
    for (const PackedRow& row : order)
        for (size_t side = 0; side < 2; ++side) references.push_back(all[2 * size_t{row.samples.front()} + side]);
    return references;
}

}  // namespace

StepBatch next_batch(const Session& session, const References& references, DataPosition& position) {
    const Numerics& numerics = session.numerics();
    constexpr int kTriesMax = 1000;
    const int64_t id_count = std::min<int64_t>(session.tokenizer->vocab_size(), session.model.vocab);
    for (int attempt = 0; attempt < kTriesMax; ++attempt) {
        const std::vector<PackedRow> order = session.data->training().take(position, session.examples_per_step());
        const std::vector<RowSamples> rows = session.data->read_training(order);
        StepBatch batch(rows, numerics.micro_batch_size, numerics.micro_batches,
                        bucket_for(numerics.sequence_lengths, rows), 0);
        batch.set_objective(session.data->objective(order, *session.tokenizer, id_count));
        if (session.preference)
            batch.set_pairs(references_of(references.training, order), session.preference->with_prompt);
        if (batch.loss_count() > 0) return batch;
        log_warning("{} rows without trained tokens are skipped", rows.size());
    }
    throw UserError(ExitCode::data, "train_data", "no row has a trained token");
}

void require_position(const Session& session, const RunProgress& progress, std::string_view where) {
    if (!session.data) return;
    const RowOrder& order = session.data->training();
    const std::optional<int64_t> rows = checked_mul(progress.step, session.examples_per_step());
    if (rows && order.position_after(*rows) == progress.position) return;
    // Rows of a step without a trained token are skipped, which only they themselves say.
    DataPosition expected;
    for (int64_t step = 0; step < progress.step; ++step) next_batch(session, {}, expected);
    if (expected == progress.position) return;
    throw UserError(
        ExitCode::storage, where,
        "is damaged: it continues with row {} of pass {}, but {} steps of {} rows lead to row {} of pass {}",
        progress.position.row + 1, progress.position.epoch + 1, progress.step, session.examples_per_step(),
        expected.row + 1, expected.epoch + 1)
        .hint("--resume=STEP of an earlier checkpoint; or begin again, with --overwrite");
}

}  // namespace windlass
