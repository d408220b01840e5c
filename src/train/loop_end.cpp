// The part of the loop that saves, stops and ends.
#include "base/activity.h"
#include "base/clock.h"
#include "base/full_disk.h"
#include "base/log.h"
#include "base/units.h"
#include "state/checkpoint.h"
#include "train/final_folder.h"
#include "train/loop.h"
#include "train/loss_plot.h"
#include "train/next_commands.h"

namespace windlass {

// What a stop at once left in memory is gone; --resume is named only where it finds something. Returns that command.
std::string TrainLoop::say_how_to_continue(int64_t done) const {
    const std::string stopped = fmt::format("stopped after step {} of {}", done, session_.total_steps()),
                      command = resume_command(folder_.path());
    const std::vector<CheckpointPlace> saved = list_checkpoints(files_, folder_.path());
    if (session_.planned.plan.store || trajectory_ != nullptr || (!saved.empty() && saved.back().step >= done)) {
        log_info("{}. To continue: {}", stopped, command);
        return command;
    }
    if (saved.empty()) {
        log_info("{}, with nothing saved. To begin again: {}", stopped, overwrite_command(folder_.path()));
        return "";
    }
    log_info("{}; the last saved step is {}. To continue from there: {}", stopped, saved.back().step, command);
    return command;
}

// By a signal, or at the end. On disk every step is kept; what is in memory is saved now.
void TrainLoop::stop() {
    const bool is_new = state_.progress.step > first_step_ && state_.progress.step != saved_step_;
    const bool is_over = state_.progress.step == session_.total_steps() || stops_early();
    if (!is_over && is_new && !session_.planned.plan.store) save();
    exporter_.finish();
}

bool TrainLoop::saves_now() {
    // Each request is taken, even if both came.
    const bool by_signal = signals_.take_save_request(), by_file = folder_.take_save_request();
    const bool is_first = state_.progress.step == 1 && session_.config.save_first_step;
    return by_signal || by_file || is_first || is_due(session_.config.save_steps, state_.progress.step);
}

// Says whether there is a checkpoint of the step.
bool TrainLoop::save() {
    settle();
    log_.clear_bar();
    const int64_t start = now_ns();
    const Activity saving(fmt::format("saving checkpoint-{}", state_.progress.step), 0, {.has_own_line = true});
    const int64_t need = checkpoint_bytes(files_, session_.folder, session_.model, session_.recipe);
    try {
        if (const int64_t free = files_.free_bytes(folder_.path()); free < need) {
            log_warning("checkpoint {} is not saved: it needs {}, {} has {} free; the next save tries again",
                        state_.progress.step, format_bytes(need), folder_.path(), format_bytes(free));
            return false;
        }
        write_checkpoint(files_, {engine_, output_of(session_)}, folder_.path(), state_);
    } catch (const MachineError& error) {
        if (!is_disk_full(error)) throw;
        log_warning("checkpoint {} is not saved: {}; the next save tries again", state_.progress.step, error.what());
        return false;
    }
    saved_step_ = state_.progress.step;
    const int64_t best = session_.best && session_.best->keeps ? state_.progress.best.step : 0;
    prune_checkpoints(files_, folder_.path(), session_.config.save_total_limit, best);
    log_info("saved {} in {}", checkpoint_path(folder_.path(), state_.progress.step),
             format_seconds(seconds_since(start)));
    return true;
}

// The last checkpoint (also of a run that was killed before it), final/, unless it has an earlier step, which is
// written when the engine's memory is free again, the picture, and the working store's end: it is kept unless a
// checkpoint, maybe of a process that was killed after it, holds the same state.
void TrainLoop::finish() {
    const int64_t step = state_.progress.step;
    if (saved_step_ != step && ends_with_whole_checkpoint(files_, folder_.path(), step)) saved_step_ = step;
    if (session_.config.save_steps && saved_step_ != step) save();
    const bool ends_here = !ends_with_earlier_step(session_, state_.progress);
    Activity writing("writing final/", trained_count(session_.model), {.has_own_line = true});
    if (ends_here)
        write_final(files_, session_, folder_, [&](int param, int64_t first, std::span<float> out) {
            engine_.read_masters(param, first, out);
            writing.done(std::ssize(out));
        });
    const LossCurves curves = read_curves(files_, folder_.file("metrics.jsonl"));
    write_text_atomic(files_, folder_.file("loss.svg"), loss_svg(curves, folder_.path()));
    if (!session_.store_path.empty() && saved_step_ == step) {
        files_.remove_file(session_.store_path);
        log_info("the working store is removed; checkpoint-{} holds the same state", saved_step_);
    }
    if (ends_here) seal_final(files_, folder_, step, state_);
}

}  // namespace windlass
