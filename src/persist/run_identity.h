// run_identity.h: which run a state belongs to: a random id in run.yaml, and in the run state of its stores, its
// checkpoints and its log (docs/format/run_id.md); and the lock on a working store.
//
// Two runs may share a drive under equal paths: in two containers, for one. Neither resumes from the other's state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/file_lock.h"
#include "persist/run_folder.h"
#include "persist/run_parts.h"

namespace windlass {

// 32 hexadecimal digits from the kernel's random numbers.
std::string new_run_id();

// run.yaml with the run's identity in front, its id, the whole and its parts, as comments: they are no settings.
std::string with_identity(const Identity& identity, const std::vector<RunPart>& parts, const std::string& yaml);
// What is after `head` in each line that begins with it.
std::vector<std::string_view> lines_that_begin(std::string_view text, std::string_view head);
// The id in a folder's run.yaml; empty where there is none.
std::string run_id_of(FileSystem& files, const std::string& run_folder);
// The identity in a folder's run.yaml, without scale_exponents; nothing if there is none. UserError(storage) if the
// line is damaged.
std::optional<Identity> identity_in_run(FileSystem& files, const std::string& run_folder);
// What the identity in a run's run.yaml has otherwise: "training rows was ..., is ...". Nothing where it holds none, or
// is no file of a run. Throws UserError(storage) where the line is damaged.
std::vector<std::string> differs_from_run(FileSystem& files, const std::string& yaml_path, const Identity& identity);

// UserError(storage) that names the state and both ids, where the run has one and they differ.
void require_own(const std::string& own_id, const RunState& state, const std::string& path, std::string_view remedy);
// The same for what lies where the run's working store will be, read or not: a run that begins would replace it.
void require_own_store(FileSystem& files, const RunRequest& run);

// The id that a run resumes under: its run.yaml's, or where that is gone its state's, with a warning.
std::string adopted_run_id(FileSystem& files, const StartPoint& start, const std::string& run_folder);

// Every step of a run with a working store is on disk before its line in metrics.jsonl. UserError(storage) where that
// file has such lines of more than one step after the store's: the store is older than the run. One step is what a
// damaged commit record takes back.
void require_newest_store(FileSystem& files, const StartPoint& start, const std::string& run_folder);

// Held by the process that trains with a working store; a file next to it. Nothing is held for an empty path.
class StoreLock {
  public:
    // UserError(storage) naming the store where another process holds it.
    StoreLock(FileSystem& files, const std::string& store_path);
    ~StoreLock();
    StoreLock(const StoreLock&) = delete;
    StoreLock& operator=(const StoreLock&) = delete;

  private:
    FileSystem& files_;
    std::optional<FileLock> lock_;
};

}  // namespace windlass
