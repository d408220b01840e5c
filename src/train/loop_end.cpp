// The part of the loop that stops and ends.
#include "base/activity.h"
#include "base/clock.h"
#include "base/full_disk.h"
#include "base/log.h"
#include "base/units.h"
#include "run/working_store.h"
#include "session/session.h"
#include "state/checkpoint.h"
#include "train/final_folder.h"
#include "train/loop.h"
#include "train/loss_plot.h"
#include "train/next_commands.h"

namespace windlass {

// What a stop at once left in memory is gone; --resume is named only where it finds something. Returns that command.
std::string TrainLoop::say_how_to_continue(int64_t done) const {
    const std::string stopped = fmt::format("stopped after step {} of {}", done, now_.session.total_steps()),
                      command = resume_command(now_.folder.path());
    const std::vector<CheckpointPlace> saved = list_checkpoints(now_.files, now_.folder.path());
    if (now_.session.planned.plan.store || now_.trajectory != nullptr ||
        (!saved.empty() && saved.back().step >= done)) {
        log_info("{}. To continue: {}", stopped, command);
        return command;
    }
    if (saved.empty()) {
        log_info("{}, with nothing saved. To begin again: {}", stopped, overwrite_command(now_.folder.path()));
        return "";
    }
    log_info("{}; the last saved step is {}. To continue from there: {}", stopped, saved.back().step, command);
    return command;
}

// By a signal, or at the end.
void TrainLoop::stop() {
    if (!now_.is_last() && !ends_early()) saver_.stop();
    tell([](StepListener& each) { each.end(); });
}

// The last checkpoint (also of a run that was killed before it), final/, unless it has an earlier step, which is
// written when the engine's memory is free again, the picture, and the working store's end: it is kept unless a
// checkpoint, maybe of a process that was killed after it, holds the same state.
void TrainLoop::finish() {
    FileSystem& files = now_.files;
    const Session& session = now_.session;
    RunFolder& folder = now_.folder;
    const RunState& state = now_.state;
    const int64_t step = state.progress.step;
    now_.log.sync();
    if (!saver_.has_saved() && session.config.save_steps) saver_.save();
    const bool ends_here = !ends_with_earlier_step(session, state.progress);
    Activity writing("writing final/", trained_count(session.model), {.has_own_line = true});
    if (ends_here)
        write_final(files, session, folder, state, [&](int param, int64_t first, std::span<float> out) {
            now_.engine.read_masters(param, first, out);
            writing.done(std::ssize(out));
        });
    const LossCurves curves = read_curves(files, folder.file("metrics.jsonl"));
    write_text_atomic(files, folder.file("loss.svg"), loss_svg(curves, folder.path()));
    // That of an earlier plan, where this one keeps none, goes as well: the run is over.
    if (const std::string store = working_store_path(session.config);
        !store.empty() && files.exists(store) && saver_.has_saved()) {
        session.store_path.empty() ? remove_store(files, store) : files.remove_file(store);
        log_info("the working store is removed; checkpoint-{} holds the same state", step);
    }
    if (ends_here) seal_final(files, folder, step, state);
}

}  // namespace windlass
