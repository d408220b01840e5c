// checkpoint.h: checkpoint-<step>/ in a run's folder: model/ (a Hugging Face folder), or adapter/ where the run trains
// one, state.wls, manifest.json.
//
// Written as checkpoint-<step>.tmp, synced, and renamed: a folder of that name without ".tmp" is complete. The manifest
// holds sizes and hashes of all files and the run state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "model/save.h"
#include "run/engine.h"
#include "state/run_state.h"
#include "state/save_output.h"

namespace windlass {

struct CheckpointPlace {
    int64_t step = 0;
    std::string path;
};

// Complete checkpoints of a run, rising.
std::vector<CheckpointPlace> list_checkpoints(FileSystem& files, const std::string& run_folder);

struct CheckpointSource {
    Engine& engine;
    OutputSource output;
};

// Writes a checkpoint of the last committed step. An existing one of this step is replaced. Throws MachineError when
// the disk refuses (what was begun is removed), UserError(storage) when it is too full to begin.
void write_checkpoint(FileSystem& files, const CheckpointSource& source, const std::string& run_folder,
                      const RunState& state);

// Bytes that a checkpoint of this run takes.
int64_t checkpoint_bytes(FileSystem& files, const ModelFolder& base, const TrainedModel& model, const Recipe& recipe);

std::string checkpoint_path(const std::string& run_folder, int64_t step);

// Whether an interrupted save, or removal, leaves a folder of this name: "checkpoint-12.tmp".
bool is_unfinished_checkpoint(std::string_view name);

// What these left.
void remove_unfinished_checkpoints(FileSystem& files, const std::string& run_folder);

// Removes all but the newest `limit` and that of step `kept`, and what was left unfinished.
void prune_checkpoints(FileSystem& files, const std::string& run_folder, std::optional<int64_t> limit,
                       std::optional<int64_t> kept = {});

// Manifest and all hashes of a checkpoint; returns its run state. Throws UserError(storage) for a damaged one.
RunState verify_checkpoint(FileSystem& files, const std::string& path);
// The newest checkpoint of the run is of this step, and nothing in it is damaged; that is warned of.
bool ends_with_whole_checkpoint(FileSystem& files, const std::string& run_folder, int64_t step);

inline constexpr const char* kStateFile = "state.wls";
inline constexpr const char* kModelFolder = "model";
inline constexpr const char* kAdapterFolder = "adapter";

}  // namespace windlass
