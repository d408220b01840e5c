// recipe.h: how parameters change: passes, state, rules. A method knows no tier and no family.
//
// A method is one folder and one line in all.cpp. Its kernels see one chunk of one parameter, that chunk's state and
// StepParams, and nothing else; so the same kernel serves every placement.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "method/param_kernel.h"
#include "method/settings.h"
#include "method/step.h"
#include "method/trained_model.h"
#include "perturb/low_rank_sum.h"

namespace windlass {

enum class PassKind : uint8_t { forward, backward, tangent };

struct RecipePass {
    PassKind kind = PassKind::forward;
    // Of methods that perturb weights (an act on arrival): forward: points at which the loss is evaluated while a
    // block is here; tangent: directions at once.
    int k = 1;
    // A forward pass with k = 1 whose one point is the weights as they are: they are read where they lie, and copied
    // only where they are computed with in another type.
    bool clean = false;
    // tangent: directions over matrices are factors of at most this rank, in f32; 0: number by number.
    int64_t rank = 0;
};
// Bytes that one copy of a parameter, or one direction over it, takes where runs read it.
int64_t probe_bytes(const RecipePass& pass, const ParamSpec& param, DType compute);

// Numbers that outlive a step: `bytes` for every `per` elements of a chunk, the last group rounded up. Chunks begin at
// whole groups: `per` divides 2^22. Or `bytes` for every row or column of a parameter, which its first chunk has all
// of; a vector of n is n rows, and no column.
enum class StatePer : uint8_t { elements, row, column };
struct StateSpec {
    std::string name;  // "m", "v", "m_scale"
    int64_t bytes = 4;
    int64_t per = 1;
    StatePer of = StatePer::elements;
};
// Bytes that a run of elements has of this state.
int64_t state_bytes(const StateSpec& state, int64_t count);
// The same of a parameter's elements from `first` on, with which a chunk begins; and bytes after which they lie where
// the parameter's state is one array.
int64_t state_bytes(const StateSpec& state, const ParamSpec& param, int64_t first, int64_t count);
int64_t state_offset(const StateSpec& state, int64_t first);

// One parameter, on the device that computes with it: the updates that it lacks are applied, in place, and
// what this pass reads instead of it is made. Every element depends on its own index and on nothing else, so any
// split of a call gives the same bits.
struct MaterializeCall {
    Param param;
    int64_t element = 0;           // of the parameter's first element in the model (global_offsets)
    std::byte* weights = nullptr;  // numel numbers of param.storage.dtype
    // Steps that were applied, oldest first, none left out between them. The updates of the last `deferred` are to be
    // applied, one after another; updates read the earlier ones too, at most the last Recipe::history of
    // them.
    std::span<const StepParams> steps;
    int deferred = 0;
    // False: the updates of weights that are merged by the window are not stored, but what is written below has them.
    bool merges = true;
    const LowRankSum* sum = nullptr;   // of weights that are never merged: what the steps before have made of them
    const StepParams* step = nullptr;  // of the pass
    int pass = 0;                      // index into Recipe::passes
    int point = -1;                    // of the pass's points the only one that is needed; -1: all of them
    DType compute = DType::f32;        // of everything that is written below; null: not wanted
    std::byte* plain = nullptr;        // the weights themselves
    // forward: the weights at this pass's points; tangent: its directions. One after the other, numel numbers each;
    // or left factors [k, rank, rows] followed by right ones [k, rank, cols], in f32, if the pass has a rank.
    std::byte* probes = nullptr;
};
using MaterializeKernel = void (*)(const MaterializeCall& call, Stream& stream);
// A record of one that makes `plain` and `probes`, and applies to the weights the updates that they lack.
template <MaterializeKernel kernel>
void materialize_cell(const ParamCall& call, Stream& stream) {
    kernel(*call.arrival, stream);
}
template <MaterializeKernel kernel>
ParamKernel materialize_kernel() {
    return {.name = "materialize",
            .uses = {{ParamSlot::weights, Access::update},
                     {ParamSlot::plain, Access::write},
                     {ParamSlot::probes, Access::write}},
            .grain = Grain::parameter,
            .cells = {materialize_cell<kernel>, nullptr, materialize_cell<kernel>}};
}
// `plain` alone: weights that are kept in another type than runs read. Enough where nothing is perturbed.
extern const ParamKernel kConvertWeights;

// What a step has found when it decides.
struct Evidence {
    // Sums over the step's tokens. Without perturbed weights one. Else pass by pass: of a forward pass, one for each
    // point; of a tangent pass, the loss and its derivative along each direction.
    std::span<const double> losses;
    double norm = 0;  // of all gradients, where the recipe finds it
};
struct Decision {
    double loss = 0;       // that is reported, a sum as `losses` are
    double norm = 0;       // the same: of the gradients before clipping, or the slope along the first direction
    bool spoiled = false;  // what has been updated is worth nothing (StepReport::spoiled)
};
// Writes into `step` what the updates that follow go by: `apply`, the factor of clipping, scalars of directions.
using Decide = Decision (*)(const MethodOptions& options, const Evidence& evidence, StepParams& step);
// Every loss, and the norm, is finite; and the factor that brings the norm to MethodOptions::max_grad_norm.
Decision clip(const MethodOptions& options, const Evidence& evidence, StepParams& step);

struct Act {
    Stage at = Stage::on_norm;
    const ParamKernel* kernel = nullptr;
    int pass = -1;  // index into Recipe::passes: on the gradients of this backward pass alone; -1: of any
};
struct Decided {
    Stage at = Stage::on_norm;
    Decide decide = nullptr;
};

// Of recipes whose state is an average of a parameter's gradients and one of their squares: a chunk's as f32, and back,
// rounded as an update rounds them.
struct Moments {
    void (*read)(std::span<std::byte* const> state, std::span<float> first, std::span<float> second) = nullptr;
    // call: `element`, `state` and `step` of it.
    void (*write)(const ParamCall& call, std::span<const float> first, std::span<const float> second) = nullptr;
};

struct Recipe {
    std::string name;
    StoreType store = StoreType::split;  // of parameters that are trained
    std::vector<RecipePass> passes;
    // In the order in which they are done to a block. Sums have one order, so it is part of what the bits are.
    std::vector<Act> acts;
    std::vector<Decided> decisions;  // in order
    std::vector<StateSpec> state;
    Moments moments;  // null: `state` is something else
    // Fills StepParams::method for this step from the options and the step's other numbers.
    void (*prepare)(const MethodOptions& options, StepParams& step) = nullptr;
    // What an act on arrival takes beyond the bytes it moves: random numbers for each element of a parameter, counted
    // as Gaussian ones (Machine::noise_per_s), for a pass (an index, or -1: nothing is probed). `updates`: how many are
    // applied to the parameter on average.
    std::function<double(const Param& param, int pass, double updates)> draws;
    int history = 0;                 // steps before it that a step's update looks back at
    int64_t terms = 0;               // directions that one step's update adds up (step_terms_max), at most
    Merge merge = Merge::each_step;  // of the weights (ParamPerturb::merge)
    int64_t merge_window = 0;        // per_window: steps of a window

    bool runs(PassKind kind) const;
    // The kernel that changes what is kept, by gradients; null: none does.
    const ParamKernel* update() const;
    // The one that makes what passes read, of weights that are kept otherwise.
    const ParamKernel& arrival() const;
    // Passes are forward or tangent only, of perturbed weights.
    bool probes() const { return &arrival() != &kConvertWeights; }
    // A reduction over all gradients is before the end of the step.
    bool needs_norm() const;
    // A block's gradients live from its first micro-batch's contribution to its update, directly after the last one's:
    // all micro-batches pass a block before the next. No update is speculative, none is deferred. Unless a pass of its
    // own finds the norm, it is known when all is updated, and only says whether everything was finite.
    bool uses_gradients_at_once() const;
    // A backward pass without updates, before the one with them, finds the norm.
    bool has_norm_pass() const;
    // An update takes all of a parameter at once.
    bool updates_whole_parameters() const;
    Decide decision(Stage at) const;  // null: nothing is decided then
};

struct Method {
    std::string_view name;  // "adamw", as in configuration
    Recipe (*recipe)(const MethodOptions& options);
    // Steps in which it learns what AdamW learns in one, as published; null: as many.
    double (*steps_for_one_of_adam)(const MethodOptions& options) = nullptr;
    double usual_rate = 0;  // peak learning rate of all parameters where the user names none; 0: the key's default
};

// The list (all.cpp).
std::span<const Method* const> all_methods();
// These throw UserError(usage) naming the methods there are.
const Method& find_method(std::string_view name);
// And this for what problems() finds.
Recipe make_recipe(std::string_view method, const MethodOptions& options);
// Nothing changes: evaluation and generation.
Recipe forward_recipe();

}  // namespace windlass
