#include "persist/rewind.h"

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/units.h"
#include "config/run_place.h"
#include "format/trajectory.h"
#include "persist/trajectory_log.h"
#include "session/next_batch.h"
#include "state/checkpoint.h"
#include "state/metrics.h"

namespace windlass {
namespace {

constexpr int64_t kMetricsBytesMax = int64_t{1} << 32;
constexpr const char* kMetricsName = "metrics.jsonl";

std::map<int64_t, double> losses_in(FileSystem& files, const std::string& folder) {
    std::map<int64_t, double> losses;
    if (!files.exists(path_in(folder, kMetricsName))) return losses;
    for (const CurvePoint& point : read_curves(files, path_in(folder, kMetricsName)).train)
        losses[point.step] = point.value;
    return losses;
}

// As the run judged its evaluations after step `from` and up to step `last`.
void judge_again(FileSystem& files, const BestRule& rule, const std::string& folder, int64_t last, BestStep& best) {
    const std::string key = fmt::format("eval_{}", rule.metric);
    for (const CurvePoint& point : read_evaluations(files, path_in(folder, kMetricsName), key, best.judged, last))
        judge(rule, point.step, point.value, best);
}

bool is_same_folder(const std::string& a, const std::string& b) {
    const auto whole = [](const std::string& path) { return std::filesystem::absolute(path + "/").lexically_normal(); };
    return whole(a) == whole(b);
}

// Of all files in a folder and its folders.
int64_t bytes_in(FileSystem& files, const std::string& folder) {
    int64_t bytes = 0;
    for (std::vector<std::string> folders = {folder}; !folders.empty();) {
        const std::string path = folders.back();
        folders.pop_back();
        for (const std::string& name : files.list(path)) {
            const FileStatus status = files.status(path_in(path, name));
            if (status.is_folder)
                folders.push_back(path_in(path, name));
            else
                bytes += status.bytes;
        }
    }
    return bytes;
}

// Of a run other than the one that is begun.
Config source_config(FileSystem& files, const Config& config) {
    Config source = config;
    const BranchSource branch = parse_branch(files, config.branch_from);
    source.output_dir = branch.run;
    source.ssd_dir.clear();  // a working store stays with its run
    source.resume = branch.step;
    return source;
}

}  // namespace

RunState state_behind(FileSystem& files, const Session& session, const std::string& folder, const RunState& from,
                      int64_t step) {
    TrajectoryReader log = TrajectoryReader::open(files, path_in(folder, kTrajectoryName));
    const std::map<int64_t, double> losses = losses_in(files, folder);
    const std::optional<double> threshold = session.config.loss_watchdog_threshold;
    RunState state = from;
    RunProgress& now = state.progress;
    now.last_line.clear();
    while (now.step < step) {
        now.tokens_total += next_batch(session, {}, now.position).tokens();
        const bool applied = log.read(++now.step).applied;
        const auto loss = losses.find(now.step);
        if (applied) ++now.applied_steps;
        if (applied && loss != losses.end()) now.last_loss = loss->second;
        const bool is_bad = !applied || (threshold && loss != losses.end() && loss->second > *threshold);
        now.bad_steps = is_bad ? now.bad_steps + 1 : 0;
    }
    if (session.best) judge_again(files, *session.best, folder, step, now.best);
    return state;
}

void set_aside_checkpoints(FileSystem& files, const std::string& folder, int64_t step) {
    for (const CheckpointPlace& place : list_checkpoints(files, folder)) {
        if (place.step <= step) continue;
        const std::string name = fmt::format("undone-checkpoint-{}", place.step);
        std::string target = path_in(folder, name);
        for (int again = 2; files.exists(target); ++again) target = fmt::format("{}/{}.{}", folder, name, again);
        files.rename(place.path, target);
        log_info("checkpoint-{} is later than step {}; renamed to {}, which keeps {} until you remove it", place.step,
                 step, target, format_bytes(bytes_in(files, target)));
    }
    files.sync_folder(folder);
}

BranchSource parse_branch(FileSystem& files, const std::string& text) {
    const size_t at = text.rfind('@');
    if (at == std::string::npos || files.exists(text)) return {run_folder_of(files, text), ""};
    return {run_folder_of(files, text.substr(0, at)), text.substr(at + 1)};
}

StartPoint find_branch(FileSystem& files, const Config& config) {
    Config source = source_config(files, config);
    const std::string path = path_in(source.output_dir, kTrajectoryName);
    if (is_same_folder(source.output_dir, config.output_dir))
        throw UserError(ExitCode::usage, "branch_from", "{} is output_dir itself", source.output_dir)
            .hint("another output_dir; or --resume=STEP, which undoes what came after");
    if (!files.exists(path))
        throw UserError(ExitCode::usage, "branch_from", "{} has no trajectory log: only runs that keep one branch",
                        source.output_dir)
            .hint("a folder in which a run of zeroth_order or forward_gradient was trained");
    const auto idle = lock_idle_run(files, source.output_dir);
    if (!idle)
        throw UserError(ExitCode::storage, source.output_dir, "another process is training into it")
            .hint("branch when it is done");
    if (source.resume.empty()) source.resume = std::to_string(TrajectoryReader::open(files, path).last_step());
    if (source.resume.find_first_not_of("0123456789") != std::string::npos)
        throw UserError(ExitCode::usage, "branch_from", "\"{}\" is no step", source.resume).hint("RUN@STEP");
    return find_start(files, run_request(source));
}

void begin_branch(FileSystem& files, const Config& config, const StartPoint& start) {
    const std::string from = source_config(files, config).output_dir;
    const int64_t step = start.log_to.value_or(start.last().progress.step);
    const TrajectoryWriter log = TrajectoryWriter::fork(files, path_in(from, kTrajectoryName), step,
                                                        path_in(config.output_dir, kTrajectoryName));
    if (log.header().first_step > 1)
        log_warning(
            "the log of {} begins after step {}, not with the base: save a checkpoint of the branch before it is "
            "stopped, or it cannot be resumed",
            from, log.header().first_step - 1);
    // Lines of later steps are not the branch's, even before it has a step.
    if (const std::string lines = path_in(from, kMetricsName); files.exists(lines))
        write_text_atomic(files, path_in(config.output_dir, kMetricsName),
                          read_text(files, lines, kMetricsBytesMax)
                              .substr(0, static_cast<size_t>(bytes_to_step(files, lines, step))));
    log_info("branching from {} after step {}", from, step);
}

}  // namespace windlass
