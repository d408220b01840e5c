// param_kernel.h: work over the elements of parameters, wherever they live: one record for each kind of it.
//
// A record says which slots of a chunk its kernel reads and writes, what that costs, and what computes it on each
// device. Lowering binds the slots to buffers, check orders the tasks by them, a price follows from the cost, and
// execute calls the cell: none of them knows what is computed. So an update, the rounding of gradients, a norm's sums
// and a new basis for an adapter are all one kind of task.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "method/gradient_format.h"
#include "method/step.h"
#include "method/trained_model.h"

namespace windlass {

struct MaterializeCall;
struct Recipe;

// Parameters of one block that a phase's kernel takes together (phase.h), in the order in which it expects them.
struct ParamTuple {
    std::vector<int> params;
    int differentiated = 0;  // the one whose gradient it takes
    // What the kernel knows of them, found once: planners lower the same group thousands of times.
    std::shared_ptr<const void> detail = nullptr;
};
using ParamTuples = std::vector<std::shared_ptr<const ParamTuple>>;

// What a kernel may read or write of a chunk.
enum class ParamSlot : uint8_t {
    weights,   // as they are kept: of a split master the high halves
    low,       // low halves of a split master
    state,     // Recipe::state, an array each
    gradient,  // f32 sums, before clipping
    judge,     // the same of other rows, where a phase has two halves
    narrow,    // the form in which gradients wait or leave (Numerics::gradient_format)
    plain,     // the weights in the type that is computed with
    probes,    // what a pass reads instead of them
    squares,   // f64 sums over each kNormChunkElements of the gradient
    kept,      // weights, low halves and state before a guess
};
enum class Access : uint8_t { read, write, update };
struct SlotUse {
    ParamSlot slot;
    Access access = Access::read;
    bool writes() const { return access != Access::read; }
};

// What one call covers: one chunk, or several that are joined; all of one parameter; a group of parameters that belong
// together (ParamTuple), chunk by chunk.
enum class Grain : uint8_t { chunk, parameter, group };

// What a kernel that works on a group found, by Phase::figures.
struct GroupReport {
    int param = 0;  // of the model's parameters: the one whose gradient it read
    std::vector<double> figures;
};

// One chunk of one parameter, or all of one. All arrays cover the same elements. Null: what the record does not name,
// or the chunk does not have.
struct ParamCall {
    Param param;
    int64_t first = 0;    // index of the chunk's first element in the parameter
    int64_t element = 0;  // and in the model (global_offsets): what noise is counted by
    int64_t count = 0;
    uint16_t* hi = nullptr;  // ParamSlot::weights; of a split master
    int16_t* lo = nullptr;
    std::span<std::byte* const> state;
    float* gradient = nullptr;
    const StepParams* step = nullptr;
    // Of a whole parameter: low halves and state in pieces of low_elements; `lo` and `state` are the first piece. All
    // else is in one piece. states: the arrays of each piece, one piece after the other; empty: there is one.
    std::span<int16_t* const> lows;
    int64_t low_elements = 0;
    std::span<std::byte* const> states;
    std::byte* work = nullptr;  // ParamKernel::work_bytes, which hold nothing
    const float* judge = nullptr;
    std::byte* narrow = nullptr;
    GradientFormat format = GradientFormat::f32;  // of `narrow`
    double* squares = nullptr;
    std::byte* kept = nullptr;
    const Recipe* recipe = nullptr;
    const MaterializeCall* arrival = nullptr;  // of a kernel that works on a block's arrival: all that it takes
    // Grain::group: the chunks of all its parameters, in the order of ParamTuple::params; this call is the first.
    std::span<const ParamCall> group;
    const TrainedModel* model = nullptr;
    const ParamTuple* tuple = nullptr;
    int iterations = 0;  // of learning, at most
    GroupReport* report = nullptr;

    // What is kept as_file, numbers of param.storage.dtype, updated in place.
    std::byte* weights() const { return reinterpret_cast<std::byte*>(hi); }
};
using ParamCell = void (*)(const ParamCall& call, Stream& stream);
// All calls of a task, which depend on none of each other.
using ParamsCell = void (*)(std::span<const ParamCall> calls, Stream& stream);

// What the memory and the cost of a call depend on.
struct ParamWork {
    std::span<const Param> params;  // one, or those of a group
    const ParamTuple* tuple = nullptr;
    int threads = 1;
    int iterations = 0;
};

struct ParamKernel {
    std::string_view name;  // "update": what a trace says
    std::vector<SlotUse> uses;
    Grain grain = Grain::chunk;
    // It changes what the run keeps, for this step: a step that is not applied leaves it out, and one without a store
    // that has begun with it is finished.
    bool is_update = false;
    // It has the measured rate of updates; else that of the memory where it computes.
    bool has_update_rate = false;
    int bytes_per_element = 0;                               // memory traffic, besides that of `narrow` and `kept`
    int64_t (*traffic)(const ParamWork& work) = nullptr;     // the same of a group; null: by elements alone
    int64_t (*work_bytes)(const ParamWork& work) = nullptr;  // memory that a call works in; null: none
    std::array<ParamCell, kDeviceKinds> cells{};             // by DeviceKind
    // The same of a whole task, where a call alone does not fill the device; null: call by call.
    std::array<ParamsCell, kDeviceKinds> joined_cells{};

    const SlotUse* use_of(ParamSlot slot) const {
        for (const SlotUse& use : uses) {
            if (use.slot == slot) return &use;
        }
        return nullptr;
    }
    bool writes(ParamSlot slot) const {
        const SlotUse* const use = use_of(slot);
        return use != nullptr && use->writes();
    }
};

// When a step comes to an act, or to a decision.
enum class Stage : uint8_t {
    on_arrival,   // act: a block's weights are where a pass is to read them
    on_gradient,  // act: the last contributions to a block's gradients are there
    on_losses,    // decision: before anything is updated
    on_norm,      // decision, and act after it: all gradients have been seen
    at_end,       // decision: nothing follows in this step
};

// Kernels that any recipe may name.
extern const ParamKernel kRoundGradient;  // gradient as it is rounded, and narrow (method/round_gradient.h)
extern const ParamKernel kSumSquares;     // of a gradient (method/norm.h)

}  // namespace windlass
