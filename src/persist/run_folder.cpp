#include "persist/run_folder.h"

#include <charconv>
#include <chrono>
#include <limits>
#include <thread>

#include "base/durable_folders.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "config/run_place.h"
#include "format/store.h"
#include "persist/run_identity.h"
#include "persist/run_names.h"
#include "persist/trajectory_log.h"
#include "session/session.h"
#include "state/checkpoint.h"
#include "state/trajectory_settings.h"

namespace windlass {
namespace {

constexpr const char* kLockName = ".lock";
constexpr std::string_view kOwnerName = ".lock.owner";  // file_lock.h
constexpr const char* kLogName = "log.txt";
constexpr const char* kSettingsName = "run.yaml";
constexpr const char* kUnfinishedConfig = "run.yaml.tmp";

// A run that was refused, or killed, before it began leaves its lock and its log: they are in nobody's way.
bool is_empty(FileSystem& files, const std::string& folder) {
    for (const std::string& name : files.list(folder)) {
        if (name != kLockName && !name.starts_with(kOwnerName) && name != kLogName && name != kUnfinishedConfig)
            return false;
    }
    return true;
}

UserError is_locked(const std::string& place, std::string_view what_it_does, const LockAttempt& attempt) {
    UserError error(ExitCode::storage, place, "{} {}", attempt.holder, what_it_does);
    if (!attempt.owner_path.empty())
        error.hint(fmt::format("rm {}, if that process is over", shell_word(attempt.owner_path)));
    return error;
}

// Who only looks whether a run trains holds the lock for a moment.
LockAttempt lock_alone(FileSystem& files, const std::string& path) {
    constexpr int kTries = 5;
    constexpr auto kMoment = std::chrono::milliseconds(20);
    for (int left = kTries - 1;; --left) {
        LockAttempt attempt = try_lock(files, files.open(path, {OpenMode::append}), LockUse::alone);
        if (attempt.lock || !attempt.owner_path.empty() || left == 0) return attempt;
        std::this_thread::sleep_for(kMoment);
    }
}

std::optional<StartPoint> from_store(FileSystem& files, const RunRequest& run) {
    const std::string& path = run.store;
    if (path.empty() || !files.exists(path)) return std::nullopt;
    try {
        const Store store = Store::open(files, path, OpenMode::read);
        return StartPoint{StartPoint::From::working_store, path, parse_run_state(store.committed_run_state(), path)};
    } catch (const UserError& error) {
        log_warning("the working store cannot be resumed: {}", error.what());
        return std::nullopt;
    }
}

// At or before step `most`.
std::optional<StartPoint> from_newest_checkpoint(FileSystem& files, const RunRequest& run, int64_t most) {
    std::vector<CheckpointPlace> places = list_checkpoints(files, run.folder);
    for (; !places.empty(); places.pop_back()) {
        const std::string& path = places.back().path;
        if (places.back().step > most) continue;
        try {
            return StartPoint{StartPoint::From::checkpoint, path, verify_checkpoint(files, path)};
        } catch (const UserError& error) {
            log_warning("skipped: {}", error.what());
        }
    }
    return std::nullopt;
}

std::optional<StartPoint> newest_state(FileSystem& files, const RunRequest& run, int64_t most) {
    std::optional<StartPoint> store = from_store(files, run);
    if (store && store->state.progress.step > most) store.reset();
    std::optional<StartPoint> checkpoint = from_newest_checkpoint(files, run, most);
    if (store && (!checkpoint || store->state.progress.step >= checkpoint->state.progress.step)) return store;
    return checkpoint;
}

// The folder whose run.yaml was read, where that is a run with a state, and not the run's output_dir: it was moved, or
// is named from another folder. Empty if it is not so.
std::string moved_run(FileSystem& files, const RunRequest& run) {
    if (run.written_in.empty()) return "";
    std::string folder = parent_folder(run.written_in);
    const auto has = [&](const char* name) { return files.exists(path_in(folder, name)); };
    if (!is_run_folder(files, folder)) return "";
    if (list_checkpoints(files, folder).empty() && !has(kTrajectoryName) && !has(kFinalName)) return "";
    const bool is_there = files.exists(run.folder);
    return is_there && files.status(run.folder).is_same(files.status(folder)) ? "" : folder;
}

std::string way_to_moved(const std::string& folder) {
    return fmt::format("--output-dir {}, where run.yaml lies with what the run has kept", shell_word(folder));
}

[[noreturn]] void refuse_step(FileSystem& files, const RunRequest& run, std::string_view log_words) {
    std::vector<std::string> steps;
    for (const CheckpointPlace& place : list_checkpoints(files, run.folder))
        steps.push_back(std::to_string(place.step));
    const std::string moved = steps.empty() ? moved_run(files, run) : "";
    throw UserError(ExitCode::usage, run.folder, "has no checkpoint of step {}{}", run.resume, log_words)
        .hint(!moved.empty()  ? way_to_moved(moved)
              : steps.empty() ? "resume: auto"
                              : fmt::format("one of: {}", fmt::join(steps, ", ")));
}

// What a folder that holds no state is good for.
std::string way_without_state(FileSystem& files, const RunRequest& run) {
    const std::string& folder = run.folder;
    if (const std::string moved = moved_run(files, run); !moved.empty()) return way_to_moved(moved);
    if (!is_run_folder(files, folder)) return "start the run without resume";
    const std::string again = "--overwrite in place of resume, which begins again";
    if (!files.exists(fmt::format("{}/{}", folder, kFinalName))) return again;
    return fmt::format(
        "--model {}/{} with another output_dir and without resume, which trains its weights further; or {}", folder,
        kFinalName, again);
}

[[noreturn]] void refuse_without_state(FileSystem& files, const RunRequest& run) {
    throw UserError(ExitCode::usage, "resume", "{} holds neither a checkpoint nor a working store", run.folder)
        .hint(way_without_state(files, run));
}

// Whose log this is, as the state next to it says; run.yaml has all of it too, but for what the log's header says.
std::optional<Identity> identity_of_log(FileSystem& files, const RunRequest& run, const TrajectoryReader& log) {
    try {
        if (const std::optional<RunState> logged = logged_state(files, run.folder)) return logged->identity;
    } catch (const UserError& error) {
        log_warning("{}", error.what());
    }
    std::optional<Identity> identity = identity_in_run(files, run.folder);
    if (identity) identity->scale_exponents = logged_identity(log.header(), run.folder).scale_exponents;
    return identity;
}

// The checkpoint of the step, or what the log makes of the newest state before it.
StartPoint from_step(FileSystem& files, const RunRequest& run) {
    int64_t step = 0;
    const char* const end = run.resume.data() + run.resume.size();
    const auto [parsed, problem] = std::from_chars(run.resume.data(), end, step);
    if (parsed != end || problem != std::errc()) refuse_step(files, run, "");
    const std::string path = fmt::format("{}/{}", run.folder, kTrajectoryName);
    const bool has_log = files.exists(path);
    for (const CheckpointPlace& place : list_checkpoints(files, run.folder)) {
        if (place.step != step) continue;
        try {
            return {StartPoint::From::checkpoint, place.path, verify_checkpoint(files, place.path)};
        } catch (const UserError&) {
            if (!has_log) throw;  // else what is before it leads there too
        }
    }
    if (!has_log) refuse_step(files, run, "");
    const TrajectoryReader log = TrajectoryReader::open(files, path);
    const int64_t first = log.first_step(), last = log.last_step();
    if (step < first - 1 || step > last)
        refuse_step(files, run, fmt::format(", and its log holds steps {} to {}", first, last));
    std::optional<StartPoint> found = newest_state(files, run, step);
    if (found && found->state.progress.step >= first - 1) {
        found->log_to = step;
        return std::move(*found);
    }
    // After the base, with what was decided when the run began.
    if (const std::optional<Identity> began = first == 1 ? identity_of_log(files, run, log) : std::nullopt)
        return {.state = {.identity = *began}, .log_to = step};
    refuse_step(files, run, ", nor a state before it that its log begins with");
}

}  // namespace

RunRequest run_request(const Config& config) {
    return {.folder = config.output_dir,
            .store = working_store_path(config),
            .resume = config.resume,
            .overwrites = config.overwrite,
            .written_in = config.written_in};
}

RunFolder::RunFolder(FileSystem& files, const RunRequest& run) : files_(files), path_(run.folder) {
    // Before a folder is made, which would look like a run's. A working store may have outlived its run's folder.
    const bool has_store = !run.store.empty() && files.exists(run.store);
    if (!run.resume.empty() && !has_store && !files.exists(path_)) refuse_without_state(files, run);
    make_durable_folders(files, path_);
    if (!files.status(path_).is_folder) throw UserError(ExitCode::usage, path_, "is not a folder");
    const bool is_used = !is_empty(files, path_), is_run = is_run_folder(files, path_);
    if (is_used && is_run && run.resume.empty() && !run.overwrites)
        throw UserError(ExitCode::usage, "output_dir", "{} holds a run already", path_)
            .hint("--resume, --overwrite or another folder");
    if (is_used && !is_run)
        throw UserError(ExitCode::usage, "output_dir", "{} is not empty, and what it holds is not a run", path_)
            .hint("another folder");
    LockAttempt attempt = lock_alone(files, file(kLockName));
    if (!attempt.lock) throw is_locked(path_, "is training into this folder, or exporting from it", attempt);
    lock_.emplace(*std::move(attempt.lock));
}

// The settings last: a folder with settings is a run, which may be overwritten again where this was cut short.
void RunFolder::clear() {
    for (const std::string& name : files_.list(path_)) {
        if (is_of_a_run(files_, path_, name) && name != kSettingsName) files_.remove_tree(file(name));
    }
    files_.remove_tree(file(kSettingsName));
}

bool RunFolder::would_clear(const std::string& resolved_path) const {
    const std::string own = files_.resolve(path_) + "/";
    if (resolved_path + "/" == own) return true;
    if (!resolved_path.starts_with(own)) return false;
    const std::string_view within = std::string_view(resolved_path).substr(own.size());
    return is_of_a_run(files_, path_, within.substr(0, within.find('/')));
}

bool RunFolder::take_request(std::string_view name) {
    const std::string path = file(name);
    if (!files_.exists(path) || !files_.status(path).is_regular)
        return false;  // a folder of somebody's asks for nothing
    files_.remove_file(path);
    return true;
}

std::vector<std::string> values_in_run(FileSystem& files, const std::string& run_folder, std::string_view key) {
    const std::string yaml = fmt::format("{}/{}", run_folder, kSettingsName);
    std::vector<std::string> values;
    if (!files.exists(yaml)) return values;
    for (const ConfigEntry& entry : read_config_file(files, yaml)) {
        if (entry.key == key) values.insert(values.end(), entry.values.begin(), entry.values.end());
    }
    return values;
}

std::optional<IdleRun> lock_idle_run(FileSystem& files, const std::string& run_folder) {
    const std::string path = fmt::format("{}/{}", run_folder, kLockName);
    if (!files.exists(path)) return IdleRun{};
    LockAttempt attempt = try_lock(files, files.open(path, {OpenMode::read}), LockUse::shared);
    if (!attempt.owner_path.empty()) throw is_locked(run_folder, "is training into this folder", attempt);
    if (!attempt.lock) return std::nullopt;
    return IdleRun{std::move(attempt.lock)};
}

namespace {

StartPoint find_any_start(FileSystem& files, const RunRequest& run) {
    if (run.resume != "auto") return from_step(files, run);
    const std::optional<StartPoint> found = newest_state(files, run, std::numeric_limits<int64_t>::max());
    const std::optional<RunState> logged = logged_state(files, run.folder);
    StartPoint start = found.value_or(StartPoint{});
    if (logged && (!found || logged->progress.step > found->state.progress.step)) start.logged = logged;
    if (found || logged) return start;
    refuse_without_state(files, run);
}

}  // namespace

StartPoint find_start(FileSystem& files, const RunRequest& run) {
    if (run.resume.empty()) return {};
    require_run_format(files, run.folder);
    StartPoint start = find_any_start(files, run);
    const std::string own_id = run_id_of(files, run.folder);
    const std::vector<RunPart> parts = parts_in_run(files, run.folder);
    constexpr std::string_view kMove = "to move it out of the run's folder";
    if (start.from == StartPoint::From::working_store) {
        require_own(own_id, start.state, start.path, "the ssd_dir of this run, or another output_dir");
        require_own_part(
            parts, start.state, start.path,
            fmt::format("rm {}, then the run continues from its newest checkpoint", shell_word(start.path)));
    }
    if (start.from == StartPoint::From::checkpoint) {
        require_own(own_id, start.state, start.path, kMove);
        require_own_part(parts, start.state, start.path, kMove);
    }
    // The log stays with its folder, and is cut where a part begins.
    const RunState& logged = start.logged ? *start.logged : start.state;
    if (start.logged || start.from == StartPoint::From::model)
        require_own(own_id, logged, fmt::format("{}/{}", run.folder, kTrajectoryName),
                    "to move it and trajectory.json out of the run's folder");
    if (run.resume == "auto") require_newest_store(files, start, run.folder);
    return start;
}

}  // namespace windlass
