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
#include "method/noise/arrival.h"
#include "model/save.h"
#include "model/spec.h"
#include "op/batch.h"

namespace windlass {

// Steps [first, last] of a log over masters that stand behind step first - 1.
class Replay {
  public:
    // `log`, `model` (with the types that the run stored) and what `masters` reads outlive it. UserError for steps that
    // the log does not hold, and for noise that this version does not draw.
    Replay(TrajectoryReader& log, int64_t first_step, int64_t last_step, const ModelSpec& model, ReadMasters masters,
           int threads);

    // Masters of elements [first, first + out.size()) of a parameter behind the last step.
    void read(int param, int64_t first, std::span<float> out);

  private:
    void take_piece(int param, int64_t first, std::span<float> masters);
    void load_steps(int64_t first_step);

    TrajectoryReader& log_;
    int64_t first_step_, last_step_;
    const ModelSpec& model_;
    ReadMasters masters_;
    std::vector<int64_t> elements_;  // by parameter
    std::unique_ptr<Stream> stream_;
    NoiseUpdate noise_;               // what all steps have in common
    std::vector<std::byte> weights_;  // a piece, as stored
    std::vector<StepParams> steps_;   // a window of the log, those that were applied
    int64_t window_ = -1;             // its first step
};

struct ReplayOptions {
    std::string base;             // model folder that the log's run started from
    std::string log;              // the file
    std::string target;           // folder to write
    std::optional<int64_t> step;  // nothing: the last one
    bool overwrite = false;
    int threads = 0;  // 0: one per core
};

struct ReplayResult {
    int64_t step = 0;
    int64_t bytes = 0;  // of the tensors
};

// Writes the weights of a step as a model folder with the base's types and files, whole or not at all. UserError(model)
// where the base is not the log's, UserError(usage) for a step that the log does not hold, UserError(storage) for
// damage at or before that step.
ReplayResult replay_log(FileSystem& files, const ReplayOptions& options);

}  // namespace windlass
