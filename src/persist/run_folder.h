// run_folder.h: the output folder of a run: who may write into it, and where a run resumes.
//
//   run.yaml  log.txt  metrics.jsonl  events.out.tfevents.*  loss.svg  checkpoint-<step>/  export-<step>/  final/
//   chat_template.jinja (where it is not the model's)  samples.jsonl  events.jsonl  save, stop, export (requests)
//   trajectory.wlt  trajectory.json (of forward-only methods)  undone-checkpoint-<step>/  refresh-<step>.json
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/file_lock.h"
#include "config/config.h"
#include "state/run_state.h"

namespace windlass {

inline constexpr const char* kFinalName = "final";
inline constexpr const char* kSamplesName = "samples.jsonl";
inline constexpr const char* kSaveRequestName = "save";
inline constexpr const char* kStopRequestName = "stop";
inline constexpr const char* kEventsName = "events.jsonl";         // docs/guide/json.md
inline constexpr const char* kReferencesName = "references.json";  // docs/format/references.md

// A run as a command names it.
struct RunRequest {
    std::string folder;       // its output_dir
    std::string store;        // its working store; empty: it has none
    std::string resume;       // "auto" or a step; empty: it begins
    bool overwrites = false;  // what is in the folder
    std::string written_in;   // Config::written_in
};
RunRequest run_request(const Config& config);

// Where a run starts or resumes.
struct StartPoint {
    enum class From { model, working_store, checkpoint } from = From::model;
    std::string path;  // of the store or the checkpoint
    RunState state;    // of that point; not set for From::model
    // A later state, which the run's trajectory log leads to from that point; or, where none was kept, its step: then
    // `state` is set for From::model too.
    std::optional<RunState> logged;
    std::optional<int64_t> log_to;

    bool resumes() const { return from != From::model || logged.has_value() || log_to.has_value(); }
    // Where the run resumes.
    const RunState& last() const { return logged ? *logged : state; }
};

// Holds the folder's lock: one process at a time writes into it.
class RunFolder {
  public:
    // Makes the folder, or takes one that is a run to resume or to overwrite.
    // UserError(usage) for any other folder that is not empty, UserError(storage) when another process holds it.
    RunFolder(FileSystem& files, const RunRequest& run);

    const std::string& path() const { return path_; }
    std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
    // Removes what runs write, and nothing else.
    void clear();
    // Whether clear() would remove this path, absolute and without links, or whether it is the folder itself.
    bool would_clear(const std::string& resolved_path) const;
    // Whether the user made this file (kSaveRequestName, kStopRequestName); takes it away.
    bool take_request(std::string_view name);

  private:
    FileSystem& files_;
    std::string path_;
    std::optional<FileLock> lock_;
};

// What the folder's run.yaml says of a key; empty where `run_folder` is no run.
std::vector<std::string> values_in_run(FileSystem& files, const std::string& run_folder, std::string_view key);

// Keeps others from training into a run's folder while this lives; shared by those who only read.
struct IdleRun {
    std::optional<FileLock> lock;  // nothing where there never was one
};
// Nothing while a process trains into the folder. UserError(storage) if only a user can know whether it still does
// (file_lock.h): who waits for it might wait forever.
std::optional<IdleRun> lock_idle_run(FileSystem& files, const std::string& run_folder);

// Follows `resume`: the newest of the working store's last commit, the newest valid checkpoint, and what the
// trajectory log makes of them or of the base; or a step: its checkpoint, or what the log makes of the newest state at
// or before it. UserError(usage) when there is nothing to resume, UserError(storage) for a state of another run, and
// for a working store that is older than the run (run_identity.h).
StartPoint find_start(FileSystem& files, const RunRequest& run);

}  // namespace windlass
