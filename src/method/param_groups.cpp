#include "method/param_groups.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/nearest.h"

namespace windlass {
namespace {

bool matches(const ParamGroup& group, const std::string& name) {
    return !name.empty() && fnmatch(group.match.c_str(), name.c_str(), 0) == 0;
}

bool matches(const ParamGroup& group, const ParamSpec& param) {
    return matches(group, param.name) || matches(group, param.tied_name);
}

// With an adapter, frozen parameters of the model are in no group, nor is what is fixed of the adapter.
bool may_train(const ModelSpec& model, const ParamSpec& param) {
    return !model.adapter || param.learns_with_adapter();
}

// "model.layers.7.mlp.up_proj.weight" -> "model.layers.*.mlp.up_proj.weight": a name for each kind of parameter.
std::string kind_of(std::string_view name) {
    std::string kind;
    while (!name.empty()) {
        const size_t dot = std::min(name.find('.'), name.size());
        const std::string_view word = name.substr(0, dot);
        const bool is_number = !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
        kind += is_number ? "*" : word;
        if (dot < name.size()) kind += '.';
        name.remove_prefix(std::min(name.size(), dot + 1));
    }
    return kind;
}

// The name that the user may have meant, or else the kinds of names that there are.
std::string advice(const ParamGroup& group, const ModelSpec& model) {
    constexpr size_t kKindsShown = 16;
    std::vector<std::string> kinds;
    std::set<std::string_view> names;
    const auto add = [&](const std::string& name) {
        if (name.empty()) return;
        names.insert(name);
        std::string kind = kind_of(name);
        if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(std::move(kind));
    };
    for (const ParamSpec& param : model.params) {
        if (may_train(model, param)) add(param.name), add(param.tied_name);
    }
    std::vector<std::string_view> candidates(kinds.begin(), kinds.end());
    candidates.insert(candidates.end(), names.begin(), names.end());
    const std::string_view near = nearest_name(group.match, candidates);
    if (!near.empty()) return fmt::format("\"{}\"", near);
    const size_t shown = std::min(kinds.size(), kKindsShown);
    std::string list = fmt::format("{}", fmt::join(kinds.begin(), kinds.begin() + static_cast<ptrdiff_t>(shown), ", "));
    if (kinds.size() > shown) list += fmt::format(" and {} more", kinds.size() - shown);
    return "names as in the model's files: " + list;
}

void set_group(const ParamGroup& group, ParamTraining& training) {
    training.trains = group.train;
    training.learning_rate_scale = group.learning_rate_scale;
    training.weight_decay = group.weight_decay;
    if (group.weight_decay) training.decays = *group.weight_decay > 0;
}

void require_effect(const ParamGroup& group, std::string_view where, const TrainedModel& model) {
    const auto any = [&](const ParamSpec& param) { return may_train(model, param) && matches(group, param); };
    if (!std::any_of(model.params.begin(), model.params.end(), any))
        throw UserError(ExitCode::usage, where, "\"{}\" matches none of the {} {} parameters{}", group.match,
                        model.adapter ? "adapter's" : "model's",
                        std::ranges::count_if(model.params, [&](const auto& each) { return may_train(model, each); }),
                        model.adapter ? ", which alone are trained" : "")
            .hint(advice(group, model));
    throw UserError(ExitCode::usage, where,
                    "all that \"{}\" matches belongs to groups before it; the first that matches counts", group.match)
        .hint("put it before them, or leave it out");
}

}  // namespace

void apply_param_groups(std::span<const ParamGroup> groups, std::string_view where, TrainedModel& model) {
    std::vector<bool> has_effect(groups.size(), false);
    for (size_t param = 0; param < model.params.size(); ++param) {
        if (!may_train(model, model.params[param])) continue;
        const auto first = std::find_if(groups.begin(), groups.end(),
                                        [&](const ParamGroup& group) { return matches(group, model.params[param]); });
        if (first == groups.end()) continue;
        set_group(*first, model.training[param]);
        has_effect[static_cast<size_t>(first - groups.begin())] = true;
    }
    for (size_t index = 0; index < groups.size(); ++index) {
        if (!has_effect[index]) require_effect(groups[index], where, model);
    }
    if (!groups.empty() && trained_count(model) == 0)
        throw UserError(ExitCode::usage, where, "no parameter is left to train")
            .hint("a group with train=true before the others, or fewer that are frozen");
    model.groups.assign(groups.begin(), groups.end());
    separate_programs(model);
}

void separate_programs(TrainedModel& model) {
    std::map<std::pair<const Program*, std::vector<bool>>, std::shared_ptr<const Program>> known;
    std::set<const Program*> taken;
    for (Block& block : model.blocks) {
        std::vector<bool> trains;
        for (const int param : block.params) trains.push_back(model.training[at(param)].trains);
        const Program* const program = block.program.get();
        const auto [entry, is_new] = known.try_emplace({program, std::move(trains)});
        if (is_new) {
            const bool is_first = taken.insert(program).second;
            entry->second = is_first ? block.program : std::make_shared<const Program>(*block.program);
        }
        block.program = entry->second;
    }
}

}  // namespace windlass
