#include "method/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "perturb/weight_op.h"

namespace windlass {

int64_t state_bytes(const StateSpec& state, int64_t count) {
    return div_up(count, state.per) * state.bytes;
}

int64_t state_bytes(const StateSpec& state, const ParamSpec& param, int64_t first, int64_t count) {
    if (state.of == StatePer::elements) return state_bytes(state, count);
    // Rows and columns belong to the whole parameter: its first chunk carries their state.
    if (first > 0) return 0;
    const bool is_matrix = param.shape.rank() == 2;
    if (state.of == StatePer::row) return state.bytes * param.shape[0];
    return is_matrix ? state.bytes * param.shape[1] : 0;
}

int64_t state_offset(const StateSpec& state, int64_t first) {
    return state.of == StatePer::elements ? state_bytes(state, first) : 0;
}

int64_t probe_bytes(const RecipePass& pass, const ParamSpec& param, DType compute) {
    if (pass.rank == 0 || param.shape.rank() != 2) return param.numel() * dtype_bytes(compute);
    const int64_t rows = param.shape[0], cols = param.shape[1];
    // Counters of factors are distinct only up to the shorter side (perturb/factors.h).
    return std::min({pass.rank, rows, cols}) * (rows + cols) * dtype_bytes(DType::f32);
}

namespace {

void convert_weights(const MaterializeCall& call, Stream& stream) {
    WINDLASS_CHECK(call.deferred == 0 && call.probes == nullptr, "{} is only converted", call.param.spec.name);
    kCopyWeights({.count = call.param.numel()},
                 {.type = weight_type(call.param.storage.dtype),
                  .scale_exponent = call.param.storage.scale_exponent,
                  .weights = call.weights,
                  .probe_type = weight_type(call.compute),
                  .plain = call.plain},
                 stream);
}

}  // namespace

const ParamKernel kConvertWeights = materialize_kernel<convert_weights>();

Decision clip(const MethodOptions& options, const Evidence& evidence, StepParams& step) {
    const double loss = evidence.losses.front();
    // The loss, too: its gradients may be finite where it is not.
    step.apply = std::isfinite(evidence.norm) && std::isfinite(loss);
    // The same guard against a zero norm as torch.nn.utils.clip_grad_norm_.
    if (options.max_grad_norm > 0) step.clip_scale = std::min(1.0, options.max_grad_norm / (evidence.norm + 1e-6));
    return {.loss = loss, .norm = evidence.norm};
}

bool Recipe::runs(PassKind kind) const {
    return std::ranges::any_of(passes, [kind](const RecipePass& pass) { return pass.kind == kind; });
}

// A recipe's needs follow from its acts, so a new method has no flags to keep in step with them.
const ParamKernel* Recipe::update() const {
    const auto found = std::ranges::find_if(acts, [](const Act& act) { return act.kernel->is_update; });
    return found == acts.end() ? nullptr : found->kernel;
}

const ParamKernel& Recipe::arrival() const {
    const auto found = std::ranges::find(acts, Stage::on_arrival, &Act::at);
    return found == acts.end() ? kConvertWeights : *found->kernel;
}

bool Recipe::needs_norm() const {
    return std::ranges::any_of(acts, [](const Act& act) { return act.kernel->writes(ParamSlot::squares); });
}

bool Recipe::uses_gradients_at_once() const {
    return std::ranges::any_of(acts,
                               [](const Act& act) { return act.kernel->is_update && act.at == Stage::on_gradient; });
}

// A method that keeps no gradients cannot come back to them: it takes one backward pass for the norm, and another one
// for the update.
bool Recipe::has_norm_pass() const {
    return std::ranges::count(passes, PassKind::backward, &RecipePass::kind) > 1;
}

bool Recipe::updates_whole_parameters() const {
    return update() != nullptr && update()->grain == Grain::parameter;
}

Decide Recipe::decision(Stage at) const {
    const auto found = std::ranges::find(decisions, at, &Decided::at);
    return found == decisions.end() ? nullptr : found->decide;
}

const Method& find_method(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Method* known : all_methods()) {
        if (known->name == name) return *known;
        names.push_back(known->name);
    }
    throw UserError(ExitCode::usage, "method", "there is no method \"{}\"", name)
        .hint(fmt::format("one of {}", fmt::join(names, ", ")));
}

Recipe make_recipe(std::string_view method, const MethodOptions& options) {
    if (const auto found = problems(method, options); !found.empty())
        throw UserError(ExitCode::usage, method, "{}", found.front().what).hint(found.front().hint);
    return find_method(method).recipe(options);
}

Recipe forward_recipe() {
    return {.name = "forward", .store = StoreType::split, .passes = {{PassKind::forward}}};
}

}  // namespace windlass
