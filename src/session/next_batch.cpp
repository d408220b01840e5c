#include "session/next_batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

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

}  // namespace windlass
