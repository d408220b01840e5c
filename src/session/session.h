// session.h: from a configuration to everything that a run needs before its first step: files are opened, the run is
// assembled from them, and planned.
//
// Nothing is allocated for training and nothing is written but the token cache and the machine's probe; `windlass plan`
// prints a Session, `windlass train` runs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/data.h"
#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "method/recipe.h"
#include "model/save.h"
#include "op/preference_attrs.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "session/budget.h"
#include "session/plan_cache.h"
#include "session/samples.h"
#include "state/best_step.h"
#include "state/run_state.h"
#include "state/save_output.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// every: steps from one phase to the next, the first before the first step; 0: never.
struct PhaseSettings {
    const Phase* phase = nullptr;
    std::optional<int64_t> Config::*key = nullptr;  // says `every`
    int64_t every = 0;
    int64_t rows = 0;    // whose gradients are used, the first half to fit, the second to judge
    int iterations = 0;  // of learning
};

enum class KeptPlans : uint8_t { used, ignored };

// What a run is about, opened and read. The configuration is as the model and its files allow it.
struct Sources {
    Config config;
    ModelFolder folder;
    ModelSpec spec;                        // of the files, with the run's adapter, and judged as its objective asks
    std::optional<AdapterFolder> adapter;  // that the run's adapter begins with; nothing where it is drawn
    std::optional<PreferenceAttrs> preference;  // where rows are pairs of answers
    std::optional<Tokenizer> tokenizer;         // where there is data
    std::optional<RunData> data;                // nothing: planning without train_data
    std::vector<std::string> notes;             // what the user should know
};

// What the run does with them: all that its bits depend on, but for what the planner chooses.
struct RunSpec : Sources {
    TrainedModel model;
    MethodOptions method_options;
    Recipe recipe;
    Identity identity;
    PhaseSettings phase;
    Samples samples;
    std::optional<BestRule> best;   // where steps are compared
    int64_t rounds_most = 1;        // of a step: more than one where answers are written, each at most so long
    std::string generation_config;  // text of the one that stops where rows end, where the model's own does not

    explicit RunSpec(Sources sources) : Sources(std::move(sources)), model(spec) {}

    const Numerics& numerics() const { return identity.numerics; }
    int64_t rows_per_step() const { return numerics().micro_batch_size * numerics().micro_batches; }
    // A training example is a row, unless an objective compares its candidates.
    int64_t rows_per_example() const { return data ? data->rows_per_example() : 1; }
    int64_t examples_per_step() const { return rows_per_step() / rows_per_example(); }
    // What parameters begin with. The value outlives it.
    ReadMasters first_weights() const;
    bool has_eval() const { return data && data->eval_count() > 0; }
};

// The run, planned for a machine. What was left open (the shape of micro-batches, the format of the state, the number
// of directions) is chosen, and nothing changes the model any more.
struct Session : RunSpec {
    int threads = 1;
    Machine machine;
    MemoryLimit memory;  // of this process; one with a name is what `request.budgets.ram` follows from
    PlanCache plan_cache;
    PlanRequest request;  // as it was given to the planner
    Planned planned;
    std::string store_path;  // of the working store, where the plan uses the disk

    explicit Session(RunSpec assembled) : RunSpec(std::move(assembled)) {}

    int64_t total_steps() const { return identity.schedule.total_steps; }  // 0: not known (no data, no max_steps)
    // A step as planned, of as many rounds as it may take.
    Simulation step_at_most() const { return in_rounds(planned.step, rounds_most); }
    // Such a step on the average, with what clipped ones do again: the figure that plans are compared by.
    double seconds_at_most() const { return step_at_most().seconds + planned.mean_seconds - planned.step.seconds; }
};

// dpo: the sums of the reference's token losses, for the rows of all training pairs and of all evaluated pairs. Found
// when a run begins.
struct References {
    std::vector<double> training, evaluated;
};

// Three steps, each a value that the next one is made of. `recorded`: the state of the run that is resumed; what was
// chosen automatically then is kept. They throw UserError of any kind, no_fit when no plan fits the budgets.
//
// To plan, config.json alone is enough: what only the weights and the tokenizer say is a note, and no weight is read.
Sources open_sources(FileSystem& files, const Config& config, ConfigUse use);
RunSpec assemble(FileSystem& files, Sources sources, const std::optional<RunState>& recorded, ConfigUse use);
// Plans that are kept spare searches.
Session plan_run(FileSystem& files, RunSpec spec, const std::optional<RunState>& recorded, KeptPlans kept);
// All three.
Session prepare_session(FileSystem& files, const Config& config, const std::optional<RunState>& recorded,
                        ConfigUse use = ConfigUse::train, KeptPlans kept = KeptPlans::used);

// How parameters are kept: as the recipe requires; those without split masters as weight_storage says.
void set_kept_types(const Config& config, const Recipe& recipe, TrainedModel& model);

// How its rows, if they are pairs of answers, are judged.
std::optional<PreferenceAttrs> preference_of(const Config& config);

// Its steps compare with what a reference says of the answers.
bool needs_references(const RunSpec& run);

// What its run writes.
OutputSource output_of(const Session& session);

// What is computed with; what is planned for a machine that is described runs nowhere.
DeviceId computing_device(const Config& config);

// The points of its steps write answers, each with rows of its own.
bool writes_answers(const Config& config, const Recipe& recipe);

// "<ssd_dir>/<name of output_dir>-<hash of its path>.wls", empty without ssd_dir.
std::string working_store_path(const Config& config);

// The type of dtype: auto: f32 if the base's matrices are f32, else bf16.
DType resolve_compute(const Config& config, const ModelSpec& model);

}  // namespace windlass
