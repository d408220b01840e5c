// recipe.h: how parameters change: sweeps, state, rules. A method knows no tier and no family.
//
// A method is one folder and one line in all.cpp. Its kernels see one chunk of one parameter, that chunk's state and
// StepParams, and nothing else; so the same kernel serves every placement.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "model/spec.h"
#include "op/batch.h"

namespace windlass {

enum class SweepKind : uint8_t { forward, reverse, tangent };

struct RecipeSweep {
    SweepKind kind = SweepKind::forward;
    int k = 1;            // directions at once
    bool probed = false;  // weights are perturbed on arrival: zeroth order
};

// Per-parameter numbers that outlive a step.
struct StateSpec {
    std::string name;  // "m", "v"
    DType dtype = DType::f32;
    // Elements kept for a parameter. Equal to numel for state that is updated chunk by chunk with its parameter;
    // anything else (LSP's projected moments) is kept whole.
    int64_t (*elements)(const ParamSpec& param) = nullptr;
};

// What happens to a parameter when it first arrives in a sweep.
enum class ArrivalRule : uint8_t { none, apply_pending };

// What happens to a parameter's gradient as soon as backward has it.
enum class GradientRule : uint8_t { none, accumulate, project, update };

// One chunk of one parameter. All spans cover the same elements.
struct UpdateCall {
    const ParamSpec* param = nullptr;
    int64_t first = 0;  // index of the chunk's first element in the parameter
    int64_t count = 0;
    uint16_t* hi = nullptr;  // split master, updated in place
    int16_t* lo = nullptr;
    std::span<std::byte* const> state;  // one per Recipe::state
    const float* gradient = nullptr;    // before clipping
    const StepParams* step = nullptr;
};
using UpdateKernel = void (*)(const UpdateCall& call, Stream& stream);

// Hyperparameters with the names users know; a method takes those it uses.
struct MethodOptions {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.0;
    double max_grad_norm = 1.0;  // 0: no clipping
};

struct Recipe {
    std::string name;
    StoreType store = StoreType::split;
    std::vector<RecipeSweep> sweeps;
    std::vector<StateSpec> state;
    ArrivalRule on_arrival = ArrivalRule::none;
    GradientRule on_gradient = GradientRule::none;
    bool needs_grad_norm = false;                     // a reduction over all gradients stands before the updates
    int update_bytes_per_element = 0;                 // memory traffic of the update, for the simulator
    std::array<UpdateKernel, kDeviceKinds> update{};  // by DeviceKind
    // Fills StepParams::method for this step from the options and StepParams::step.
    void (*prepare)(const MethodOptions& options, StepParams& step) = nullptr;

    bool runs(SweepKind kind) const;
};

struct Method {
    std::string_view name;  // "adamw", as in configuration
    Recipe (*recipe)(const MethodOptions& options);
};

// The list (all.cpp).
std::span<const Method* const> all_methods();
// Throws UserError(usage) naming the methods there are.
Recipe make_recipe(std::string_view method, const MethodOptions& options);
// Nothing changes: evaluation and generation.
Recipe forward_recipe();

}  // namespace windlass
