// inference.h: an engine for a model that is not trained: evaluation and generation, under the same budgets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/open_model.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "text/tokenizer.h"

namespace windlass {

struct InferenceOptions {
    std::string model;
    std::string dtype = "auto";
    std::string weight_storage = "as_file";
    ByteLimit ram{"80%"};
    bool ram_given = false;  // then it is enforced
    std::string ssd_dir;     // weights that memory does not hold are read from a store in this folder
    int threads = 0;         // 0: one per core
    uint64_t seed = 0;
    OpProfile* profile = nullptr;  // filled where given
};

// What the schedules shall be, once the model is known.
struct InferenceShape {
    int64_t micro_batch_size = 1;
    int64_t micro_batches = 1;
    std::vector<int64_t> sequence_lengths;  // of evaluation
    std::vector<ScheduleRequest> schedules;
};

class Inference {
  public:
    // Plans, allocates and loads. Throws UserError(no_fit) with what would help.
    Inference(FileSystem& files, OpenModel& opened, const InferenceOptions& options, InferenceShape shape);
    ~Inference();  // removes the store that it made
    Inference(const Inference&) = delete;
    Inference& operator=(const Inference&) = delete;

    Engine& engine() { return *engine_; }
    const Planned& planned() const { return planned_; }

  private:
    FileSystem& files_;
    Planned planned_;
    std::string store_path_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace windlass
