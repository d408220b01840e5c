// materialize.h: what the passes of forward-only methods read: weights with the updates that they lack, perturbed
// copies of them, and directions.
//
// A step's PerturbStep says everything (step_numbers.h).
#pragma once

#include "method/forward_only/step_numbers.h"
#include "method/forward_only/sums.h"

namespace windlass {

// Recipe::draws of these options; `perturbed`: by pass, directions that are drawn for each weight.
std::function<double(const Param&, int, double)> draws_of(const MethodOptions& options, std::vector<int> perturbed);

// Writes w + eps z and w - eps z of the pass's direction (its index); `k` of the pass is 2. Of a pass that is clean
// it copies the weights, if they are computed with in another type. Points of parameters that are frozen, or left out
// of this step (layer_drop.h), are the weights.
void materialize_points(const MaterializeCall& call, Stream& stream);
// The same of w + eps z alone; `k` is 1.
void materialize_point(const MaterializeCall& call, Stream& stream);
// Writes the k = options.directions directions themselves, and the weights in the type that is computed with. Where
// they are of low rank and the parameter is a matrix, their factors (RecipePass::rank), in f32: the left ones of all,
// then the right ones.
void materialize_tangents(const MaterializeCall& call, Stream& stream);

// Puts what was found along each direction where an update reads it, and `apply`: false where one of them is not
// finite. Returns what was found along the first.
double set_scalars(const MethodOptions& options, std::span<const double> found, StepParams& step);

// A run of one parameter's elements.
struct UpdatedElements {
    Param param;
    int64_t element = 0;  // of the first one, in the model (global_offsets)
    int64_t count = 0;
    std::byte* weights = nullptr;  // count numbers of param.storage.dtype
    int64_t first = 0;             // of the first one, in the parameter
};
// The updates of the last `deferred` of these steps (MaterializeCall::steps), one after the other, in one pass: the
// bits of as many calls. Of elements that are merged by the window these are whole windows.
void update_by_steps(const UpdatedElements& elements, std::span<const StepParams> steps, int deferred, Stream& stream);
// The weights after these steps, of elements whose updates are kept apart from them: the steps since their last
// window, or `sum`. Stores nothing but `numbers` [count].
void read_updated(const UpdatedElements& elements, std::span<const StepParams> steps, int deferred,
                  const LowRankSum* sum, std::span<float> numbers, Stream& stream);

}  // namespace windlass
