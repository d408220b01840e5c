// replay.h: the weights of any step, from base weights and a trajectory log.
//
// Chunk by chunk: a chunk's weights are read once, taken through all steps, and handed on; so memory does not grow with
// the model or the run. Bits are those of the run: the same kernel takes the same numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "device/device.h"
#include "format/trajectory.h"
#include "method/trained_model.h"
#include "model/save.h"
#include "op/batch.h"
#include "persist/trajectory_log.h"

namespace windlass {

// What is needed of weights that updates stay next to (Merge): all that was learned, or what is kept of it.
enum class ReplayOf : uint8_t { weights, kept };

// The last step whose update is in what is kept of these weights after step `step`; matrices that are never merged
// apart, which have none.
int64_t merged_step(const TrajectoryHeader& header, const TrainedModel& model, int64_t step);

// Steps [first, last] of a log over masters as of step first - 1: as they are kept, where updates stay
// next to them.
class Replay {
  public:
    // `log`, `model` (with the types that the run stored) and what `masters` reads outlive it. UserError for steps that
    // the log does not hold, and for noise that this version does not draw.
    Replay(TrajectoryReader& log, int64_t first_step, int64_t last_step, const TrainedModel& model, ReadMasters masters,
           int threads, ReplayOf what = ReplayOf::weights);

    // Masters of elements [first, first + out.size()) of a parameter after the last step.
    void read(int param, int64_t first, std::span<float> out);

  private:
    void take_piece(int param, int64_t first, std::span<float> masters);
    void load_steps(int64_t first_step);

    TrajectoryReader& log_;
    int64_t first_step_, merged_step_;
    int64_t at_once_;  // steps of a window of the log
    const TrainedModel& model_;
    ReadMasters masters_;
    std::vector<int64_t> elements_;  // by parameter
    std::unique_ptr<Stream> stream_;
    std::vector<std::byte> weights_;  // a piece, as stored
    LoggedSteps steps_;               // a window of the log
    int64_t window_ = -1;             // its first step
    LoggedSteps deferred_;            // of the last step, after merged_step_
    LowRankSums sums_;
};

struct ReplayOptions {
    std::string base;                            // model folder that the log's run started from
    std::string log;                             // the file
    std::string target;                          // folder to write, or a GGUF file where the name ends so
    std::optional<GgufType> type;                // of a GGUF file
    std::vector<std::string> ignored_keys = {};  // of the base's config.json
    std::optional<int64_t> step;                 // nothing: the last one
    bool overwrite = false;
    int threads = 0;  // 0: one per core
};

struct ReplayResult {
    int64_t step = 0;
    int64_t bytes = 0;  // of the tensors
};

// Writes the weights of a step as a model folder with the base's types and files, or as a GGUF file, whole or not at
// all. UserError(model) where the base is not the log's, UserError(usage) for a step that the log does not hold,
// UserError(storage) for damage at or before that step.
ReplayResult replay_log(FileSystem& files, const ReplayOptions& options);

}  // namespace windlass
