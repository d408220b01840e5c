#include "train/saver.h"

#include "base/activity.h"
#include "base/clock.h"
#include "base/file_error.h"
#include "base/full_disk.h"
#include "base/json.h"
#include "base/log_tap.h"
#include "base/units.h"
#include "format/manifest.h"
#include "state/checkpoint.h"
#include "train/final_folder.h"
#include "train/run_events.h"

namespace windlass {

bool Saver::is_asked() {
    // Each request is taken, even if both came.
    const bool by_control = loop_.control.take_save_request(), by_file = loop_.folder.take_request(kSaveRequestName);
    const int64_t step = loop_.state.progress.step;
    const bool is_first = step == 1 && loop_.session.config.save_first_step;
    return by_control || by_file || is_first || is_due(loop_.session.config.save_steps, step);
}

// A kill may have come between a step and its checkpoint.
void Saver::begin() {
    const std::string& folder = loop_.folder.path();
    remove_unfinished_checkpoints(loop_.files, folder);
    const int64_t step = loop_.state.progress.step;
    const bool is_due_now = step > 0 && is_due(loop_.session.config.save_steps, step);
    if (is_due_now && !loop_.files.exists(path_in(checkpoint_path(folder, step), kManifestName))) save();
}

void Saver::done(const StepDone& /*step*/) {
    if (is_asked() && saved_step_ != loop_.state.progress.step) save();
}

void Saver::stop() {
    const int64_t step = loop_.state.progress.step;
    if (step > loop_.first_step && step != saved_step_ && !loop_.session.planned.plan.store) save();
}

bool Saver::save() {
    loop_.settle();
    loop_.log.clear_bar();
    const Session& session = loop_.session;
    const RunProgress& progress = loop_.state.progress;
    const std::string& folder = loop_.folder.path();
    const int64_t start = now_ns();
    const Activity saving(fmt::format("saving checkpoint-{}", progress.step), 0, {.has_own_line = true});
    const int64_t need = checkpoint_bytes(loop_.files, session.folder, session.model, session.recipe);
    try {
        if (const int64_t free = loop_.files.free_bytes(folder); free < need) {
            log_warning("checkpoint {} is not saved: it needs {}, {} has {} free; the next save tries again",
                        progress.step, format_bytes(need), folder, format_bytes(free));
            return false;
        }
        loop_.log.sync();  // a checkpoint has the lines of its steps, even where the power fails
        write_checkpoint(loop_.files, {loop_.engine, output_of(session)}, folder, loop_.state);
    } catch (const MachineError& error) {
        if (!is_disk_full(error)) throw;
        log_warning("checkpoint {} is not saved: {}; the next save tries again", progress.step, error.what());
        return false;
    }
    saved_step_ = progress.step;
    prune();
    const std::string path = checkpoint_path(folder, progress.step);
    const double seconds = seconds_since(start);
    log_told("saved {} in {}", path, format_seconds(seconds));
    loop_.events.emit(kCheckpointEvent, {{"step", progress.step}, {"folder", path}, {"seconds", seconds}});
    return true;
}

void Saver::prune() {
    const Session& session = loop_.session;
    const int64_t best = session.best && session.best->keeps ? loop_.state.progress.best.step : 0;
    prune_checkpoints(loop_.files, loop_.folder.path(), session.config.save_total_limit, best);
}

bool Saver::has_saved() {
    const int64_t step = loop_.state.progress.step;
    if (saved_step_ == step) return true;
    if (!ends_with_whole_checkpoint(loop_.files, loop_.folder.path(), step)) return false;
    saved_step_ = step;
    prune();
    return true;
}

}  // namespace windlass
