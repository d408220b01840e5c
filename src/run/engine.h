// engine.h: holds a run's memory and executes its schedules.
//
// An Engine owns the arena, the working store (where the plan has one) and the lanes. What it executes was lowered
// and checked before; it never chooses, and allocates nothing after construction.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "format/model_folder.h"
#include "format/store.h"
#include "method/recipe.h"
#include "method/trained_model.h"
#include "model/save.h"
#include "run/objective.h"
#include "schedule/schedule.h"

namespace windlass {

// Slower than the machine is: an emulated link and disk, so that overlap can be seen and judged where neither is real.
struct Emulation {
    double link_bytes_per_s = 0;  // each way; 0: as fast as memory
    double disk_bytes_per_s = 0;  // reads and writes together; 0: as fast as it is
    // Tests: lanes are delayed at random, by up to jitter_ns, in a sequence that the seed fixes.
    uint64_t jitter_seed = 0;
    int64_t jitter_ns = 0;
};

// Everything fixed before the first step.
struct EngineSetup {
    TrainedModel model;
    Recipe recipe;
    MethodOptions method_options;
    Numerics numerics;
    Plan plan;
    ScheduleSet schedules;   // checked
    std::string store_path;  // the working store, where the plan uses the disk
    std::string store_meta;  // caller's text kept in the store (numerics, versions)
    uint64_t seed = 0;
    Emulation emulation;
    OpProfile* profile = nullptr;  // filled by compute lanes when given
    Device* device = nullptr;      // tests: computes instead of the plan's; outlives the engine
};

struct StepInput {
    std::vector<Batch> micro;  // micro_batches of them, each of the schedule's rows x sequence_length
    StepParams params;         // seed, step, learning_rate, loss_scale; head and id_count of an evaluation
    // Forward-only methods: what the step is judged by, instead of the sum of its token losses. Written answers are for
    // those that evaluate points, not for tangents.
    const ObjectiveRows* objective = nullptr;
    bool token_losses = false;  // train_step: fill StepReport::token_losses; of methods with gradients
};

struct TaskTime {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
};

struct StepReport {
    double loss_sum = 0;   // of token losses, micro-batches in order; of the objective over its examples
    double grad_norm = 0;  // before clipping; 0 without the reduction
    double clip_scale = 1;
    bool applied = false;  // false: loss or norm not finite, nothing was updated
    bool redone = false;   // the update was speculative, and done again
    // A gradient was not finite, which was known when updates were done (Recipe::uses_gradients_at_once). With a store
    // the step before is there again, and the step counts as one that was not applied. Without one the state is lost.
    bool spoiled = false;
    StepParams params;   // with the clip factor
    int64_t rounds = 1;  // times that the schedule ran: more than once where answers were written
    double seconds = 0;  // of all rounds
    std::array<double, kLaneKinds> busy_seconds{};  // by kind of lane
    std::vector<TaskTime> tasks;                    // parallel to Schedule::tasks; of the first round
    std::vector<double> token_losses;  // what the head said, when asked for: micro by micro, token by token
    std::vector<GroupReport> groups;   // phase: in the order of the schedule
    std::vector<float> logits;         // decode: the last token of each row [rows, V]
};

class Engine {
  public:
    // Allocates and touches the arena. Throws UserError(no_fit) when the system refuses it.
    Engine(FileSystem& files, EngineSetup setup);
    ~Engine();

    // Fills weights from a model folder, an adapter's by the seed, moments with zero; makes the working store where the
    // plan has one, and commits it as step 0 with this run state.
    void load(ModelFolder& folder, const std::string& run_state);
    // The same with masters from elsewhere, as this step; each parameter is asked for chunk by chunk.
    void fill(int64_t step, const std::string& run_state, const ReadMasters& masters);
    // Opens the working store of an interrupted run instead; returns the run state of its last committed step.
    std::string reopen();
    // Restores from a snapshot (checkpoint), whatever the policy that wrote it, and what it does not hold, since it is
    // not trained, from `base`; returns its run state.
    std::string restore(Store& snapshot, const ReadMasters& base);

    // One training step. With a store it writes the version that is not current, which becomes current in commit().
    // Where the plan holds updates for the next step's forward, this step first does, and commits, those of the step
    // before; of a forward-only method each Plan::writeback_steps, and applies them in passing otherwise. Where the
    // step is judged by answers that are written, the schedule runs until all are (generated_answers.h). Throws
    // MachineError when a disk fails; then the step is not committed.
    StepReport train_step(const Schedule& schedule, const StepInput& input);
    // The step is over. It is durable when this returns, unless its update is deferred: see durable_step().
    void commit(int64_t step, const std::string& run_state, const StepReport& report);
    // Between two steps: a phase (ScheduleRequest::Kind::phase). `step` of the input is the step that follows. It
    // counts as part of the step before: the store then has two states of that step, and their run states tell them
    // apart.
    StepReport run_phase(const Schedule& schedule, const StepInput& input);
    void commit_phase(int64_t step, const std::string& run_state);
    // The last step whose update has landed, and, with a store, is committed.
    int64_t durable_step() const;
    // The last steps of an interrupted run whose state the engine was filled with, oldest first, those that were
    // applied. The state lacks the updates of the last `deferred` of them; the earlier ones are history
    // (Recipe::history). `step`, with its run state, is the last one, applied or not.
    void recall(std::vector<StepParams> steps, int deferred, int64_t step, const std::string& run_state);
    // The next step, in order, of all that were applied before: what weights that are never merged have of them.
    void recall_sums(const StepParams& step);
    // Applies and commits deferred updates, except those of an unfinished window (Merge). To be called before
    // evaluate, decode, snapshot and read_masters.
    void flush();

    // Forward only. token_losses: fill StepReport::token_losses.
    StepReport evaluate(const Schedule& schedule, const StepInput& input, bool token_losses = false);
    // Decode: each row's new tokens after Batch::cached earlier ones: as many as the schedule is for, or fewer, but
    // more than one.
    StepReport decode(const Schedule& schedule, const StepInput& input);

    // Writes hi, lo and state of the trained parameters, of the last committed step, as a snapshot store: of the step
    // `step`, or of durable_step() if updates are deferred until their window is over.
    void snapshot(const std::string& path, int64_t step, const std::string& run_state);
    // fp32 masters of elements [first, first + out.size()) of a parameter, with all updates.
    void read_masters(int param, int64_t first, std::span<float> out);

    const EngineSetup& setup() const;
    // Asks running lanes to stop at the next task, from any thread.
    void request_stop() noexcept;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace windlass
