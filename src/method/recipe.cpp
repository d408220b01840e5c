#include "method/recipe.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace windlass {

bool Recipe::runs(SweepKind kind) const {
    return std::any_of(sweeps.begin(), sweeps.end(), [kind](const RecipeSweep& sweep) { return sweep.kind == kind; });
}

Recipe make_recipe(std::string_view method, const MethodOptions& options) {
    std::vector<std::string_view> names;
    for (const Method* known : all_methods()) {
        if (known->name == method) return known->recipe(options);
        names.push_back(known->name);
    }
    throw UserError(ExitCode::usage, "method", "there is no method \"{}\"", method)
        .hint(fmt::format("one of {}", fmt::join(names, ", ")));
}

Recipe forward_recipe() {
    return {.name = "forward", .store = StoreType::split, .sweeps = {{SweepKind::forward}}};
}

}  // namespace windlass
