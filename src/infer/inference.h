// inference.h: an engine for a model that is not trained: evaluation and generation, under the same budgets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/open_model.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "session/budget.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// What the schedules shall be, once the model is known.
struct InferenceShape {
    int64_t micro_batch_size = 1;
    int64_t micro_batches = 1;
    std::vector<int64_t> sequence_lengths;  // of evaluation
    std::vector<ScheduleRequest> schedules;
};

class Inference {
  public:
    // Plans, allocates and loads, on the configuration's device. Weights that memory does not hold are read from a
    // store in ssd_dir. `profile` is filled where given. Throws UserError(no_fit) with what would help, UserError(gpu)
    // where there is no such device.
    Inference(FileSystem& files, OpenModel& opened, const Config& config, InferenceShape shape,
              OpProfile* profile = nullptr);
    ~Inference();  // removes the store that it made
    Inference(const Inference&) = delete;
    Inference& operator=(const Inference&) = delete;

    Engine& engine() { return *engine_; }
    const Planned& planned() const { return planned_; }

  private:
    FileSystem& files_;
    Planned planned_;
    std::string store_path_;
    std::optional<EnforcedMemory> enforced_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace windlass
