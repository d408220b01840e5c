#include "method/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/math.h"
#include "perturb/weight_op.h"

namespace windlass {

int64_t state_bytes(const StateSpec& state, int64_t count) {
    return div_up(count, state.per) * state.bytes;
}

int64_t state_bytes(const StateSpec& state, const ParamSpec& param, int64_t first, int64_t count) {
    if (state.of == StatePer::elements) return state_bytes(state, count);
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
    return std::min({pass.rank, rows, cols}) * (rows + cols) * dtype_bytes(DType::f32);
}

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

bool Recipe::runs(PassKind kind) const {
    return std::any_of(passes.begin(), passes.end(), [kind](const RecipePass& pass) { return pass.kind == kind; });
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
