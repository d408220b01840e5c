// engine_fixture.h: tiny real models in an Engine, under any plan, with the golden batches to train on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "model/families.h"
#include "op/ops.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {

// A golden case (docs/dev/goldens.md).
struct Golden {
    explicit Golden(const std::string& name);
    std::vector<float> floats(const std::string& tensor) const;
    std::vector<int32_t> ids(const std::string& tensor) const;  // I64 in the file

    std::string folder;  // of the model
    std::shared_ptr<const Json> json;
    std::shared_ptr<class SafetensorsReader> tensors;
};

// Rows of tokens with everything that a Batch points to. One document a row.
struct TestBatch {
    TestBatch(std::vector<int32_t> tokens, std::vector<int32_t> targets, int64_t rows);
    // Rows [first, first + count) as a batch of their own.
    Batch rows(int64_t first, int64_t count) const;
    int64_t target_count() const;

    std::vector<int32_t> tokens, targets, positions, doc_start;
    int64_t row_count, sequence_length;
};

inline Plan memory_plan() {
    return {.policy = "test", .order = MicroOrder::micro_batch_first};
}
// For methods that go forward only.
inline Plan forward_only_memory_plan() {
    return {.policy = "in_memory", .read_ahead = 0, .common = {.update = UpdateTime::next_forward}};
}
inline Plan disk_plan(Home weights, Home gradients, int threads = 1) {
    return {.policy = "test",
            .threads = threads,
            .store = true,
            .common = {.weights = weights, .state = Home::disk, .gradients = gradients}};
}

inline void PrintTo(const Plan& plan, std::ostream* out) {
    *out << plan.policy << ": " << describe_placement(plan) << "; " << describe_updates(plan);
}

// The same plan with each of so many blocks another way: homes, update time, what is recomputed.
Plan mixed_plan(const Plan& plan, size_t blocks);

struct EngineOptions {
    Plan plan = memory_plan();
    DType compute = DType::f32;
    std::string method_name = "adamw";
    MethodOptions method;
    std::function<void(Recipe&)> alter_recipe;  // empty: it is the method's
    int64_t micro_batch_size = 2;
    int micro_batches = 1;
    int64_t sequence_length = 24;
    bool writes_answers = false;
    std::string store_path;
    Emulation emulation;
    Device* device = nullptr;                      // instead of the plan's
    std::function<void(ScheduleSet&)> spoil;       // a fault in checked schedules
    std::function<bool(const ParamSpec&)> trains;  // empty: all of them
    std::vector<ParamGroup> groups;
    bool splits_frozen = false;                   // what is not trained is kept as what is
    bool in_8_bits = false;                       // matrices are kept so
    bool in_4_bits = false;                       // those of layers are, and frozen unless updates are never merged
    std::optional<AdapterSettings> adapter = {};  // beside all linear layers of layers
    bool adapts_tables = false;                   // and next to the table of tokens and the head
    GradientFormat gradient_format = GradientFormat::f32;
    bool refreshes = false;                          // projected layers, by refresh_on()
    std::optional<PreferenceAttrs> preference = {};  // the head judges pairs of rows
};

// The model with this adapter, where there is one, at all linear layers of its layers; with_tables: at all
// layers that may have it.
ModelSpec adapted(ModelSpec model, const std::optional<AdapterSettings>& adapter, bool with_tables = false);

// An engine with the model loaded, and the schedules that `options` ask for: train and eval.
std::unique_ptr<Engine> make_engine(FileSystem& files, const std::string& model_folder, const EngineOptions& options,
                                    bool load = true);

// What train_step takes for these rows, split into the engine's micro-batches.
StepInput step_input(const Engine& engine, const TestBatch& batch, int64_t step, double learning_rate);
const Schedule& train_schedule(const Engine& engine, const TestBatch& batch);

// One step on these rows, split into the engine's micro-batches; commits it.
StepReport train_on(Engine& engine, const TestBatch& batch, int64_t step, double learning_rate);

// A refresh before this step, fitted on the rows of one batch and judged on those of another; commits it as part of the
// step before.
StepReport refresh_on(Engine& engine, const TestBatch& fit, const TestBatch& judge, int64_t step);

// All masters, parameter by parameter.
std::vector<std::vector<float>> all_masters(Engine& engine);
// {"step":3}: the run state that train_on commits with a step.
std::string run_state_of(int64_t step);
// The whole state (weights, and what the method keeps beside them) as the bytes of a snapshot's chunks, and the masters
// of what is not trained.
std::string state_bytes(Engine& engine, FileSystem& files, const std::string& path);

}  // namespace windlass
