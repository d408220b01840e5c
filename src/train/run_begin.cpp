#include "train/run_begin.h"

#include "base/json.h"
#include "base/log_tap.h"
#include "persist/run_identity.h"
#include "session/run_text.h"
#include "session/run_warnings.h"
#include "train/final_folder.h"
#include "train/run_events.h"

namespace windlass {
namespace {

// A run that begins from another run's run.yaml repeats it bit for bit only where all of its identity is the same.
void tell_of_other_run(FileSystem& files, const Session& session) {
    const std::string& yaml = session.config.written_in;
    if (yaml.empty()) return;
    const std::vector<std::string> others = differs_from_run(files, yaml, session.identity);
    if (!others.empty()) log_info("not the run that {} was written by: {}", yaml, fmt::join(others, "; "));
}

// Its evaluation and its folders are made up for where a stop left them out.
void tell_if_over(const Session& session, const RunProgress& last) {
    if (is_over(session, last))
        log_info("no step is left to train (step {} of {}); what a stop left out of the end is written now", last.step,
                 session.total_steps());
}

// The step on which the run ended once is later than any state that is kept.
void tell_if_repeated(const std::optional<RunState>& ended, const RunProgress& last) {
    if (ended && ended->progress.step > last.step)
        log_warning(
            "final/ is of a run of {} steps, but the newest state to continue from is of step {}: steps {} to "
            "{} are trained again",
            ended->progress.step, last.step, last.step + 1, ended->progress.step);
}

}  // namespace

void tell_begin(FileSystem& files, const Session& session, const StartPoint& start,
                const std::vector<std::string>& changed, const std::optional<RunState>& ended, EventStream& events) {
    events.emit(kRunEvent, {{"run_id", session.identity.run_id},
                            {"folder", session.config.output_dir},
                            {"step", start.resumes() ? start.last().progress.step : 0},
                            {"total_steps", session.total_steps()}});
    if (!changed.empty()) log_warning("Resuming with changed settings: {}", fmt::join(changed, "; "));
    if (start.resumes()) {
        tell_if_repeated(ended, start.last().progress);
        tell_if_over(session, start.last().progress);
    } else {
        tell_of_other_run(files, session);
    }
    session.folder.warn_of_side_files(files);
    for (const std::string& warning : run_warnings(session)) log_warning("{}", warning);
    const std::string plan = plan_text(session) + kFits;
    log_told_line(std::string_view(plan).substr(0, plan.size() - 1));
    events.emit(kPlanEvent, plan_json(session, Json(), Json()));
}

}  // namespace windlass
