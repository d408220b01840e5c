#include "train/finished_run.h"

#include <limits>

#include "base/log.h"
#include "format/base_checksum.h"
#include "session/budget.h"
#include "session/next_batch.h"
#include "train/final_folder.h"
#include "train/next_commands.h"

namespace windlass {

void keep_date(FileSystem& files, const std::string& run, Config& config) {
    const std::vector<std::string> date = values_in_run(files, run, "template_date");
    if (config.template_date.empty() && !date.empty()) config.template_date = date.front();
}

std::string needed_checksum(const Session& session) {
    return trained_count(session.model) < session.model.param_count() ? base_checksum(session.folder) : "";
}

std::vector<std::string> require_same(const Session& session, const RunState& last, const std::string& where) {
    require_same_base(last.identity, session.identity, session.config.model);
    std::vector<std::string> changed =
        require_same_run(last.identity, session.identity, session.config.allow_changed_settings, where);
    require_position(session, last.progress, where);
    return changed;
}

std::optional<TrainResult> already_finished(FileSystem& files, const Config& given, const RunFolder& folder,
                                            const RunState& ended) {
    const RunProgress& last = ended.progress;
    if (given.max_steps && last.step < *given.max_steps && last.best.misses == 0)
        return std::nullopt;  // the usual way on
    Config config = given;
    keep_date(files, folder.path(), config);
    Session session = prepare_session(files, config, ended, ConfigUse::plan);  // no weight is read
    session.identity.base_checksum = needed_checksum(session);
    require_same(session, ended, folder.file(kFinalName));
    if (!is_over(session, last)) return std::nullopt;
    const bool early = last.step < session.total_steps();
    log_info("Already finished ({}step {} of {}). Raise {} to continue.", early ? "stopped early, " : "", last.step,
             session.total_steps(), early ? "early_stopping_patience" : "max_steps or num_train_epochs");
    TrainResult result{.steps = last.step, .total_steps = session.total_steps(), .loss = last.last_loss};
    result.eval_loss = std::numeric_limits<double>::quiet_NaN();
    result.final_folder = folder.file(kFinalName);
    result.next = next_commands(files, session, folder.path());
    describe_end(session, last, result);
    return result;
}

void describe_end(const Session& session, const RunProgress& progress, TrainResult& result) {
    if (session.best && progress.best.step > 0) result.best_step = progress.best.step;
    result.predicted_bytes = session.planned.memory_bytes + session.planned.device_bytes;
    result.predicted_device_bytes = session.planned.device_bytes;
    result.peak_bytes = private_memory_peak();
}

}  // namespace windlass
