#include "model/adapters/whole.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr std::string_view kHeadModule = "lm_head";  // in all of transformers' models
constexpr std::string_view kTableEnd = ".weight";

std::string_view without_weight(std::string_view name) {
    WINDLASS_CHECK(name.ends_with(kTableEnd), "{} is no table", name);
    name.remove_suffix(kTableEnd.size());
    return name;
}

bool is_head(std::string_view name) {
    const std::string_view module = name.substr(0, name.rfind('.'));
    return module.substr(module.rfind('.') + 1) == kHeadModule;
}

// The two names of a tied table.
struct Ends {
    std::string embedding, head;
};
Ends ends_of(const ParamSpec& table) {
    return is_head(table.name) ? Ends{table.tied_name, table.name} : Ends{table.name, table.tied_name};
}

TableCopy copy_of(const ModelSpec& model, int table, const std::string& end) {
    const ParamSpec& from = model.params[at(table)];
    const std::string module(without_weight(end));
    return {.of = table,
            .is_head = is_head(end),
            .param = {.name = module + ".modules_to_save.weight",
                      .shape = from.shape,
                      .file_dtype = from.file_dtype,
                      .added = AddedParam{.layer = module, .part = "weight", .copy_of = from.name}}};
}

bool looks_up(const Program& program, size_t weight) {
    return std::ranges::any_of(program.nodes, [&](const Node& node) {
        return node.op == &kEmbedding &&
               std::ranges::find(node.weights, static_cast<int>(weight)) != node.weights.end();
    });
}

template <typename Body>
void for_blocks(ModelSpec& model, Body body) {
    std::ranges::for_each(model.blocks, body);
    body(model.logits);
}

// Homes are the first blocks that use a parameter.
void find_home(ModelSpec& model, int param) {
    const auto uses = [&](const Block& block) { return std::ranges::find(block.params, param) != block.params.end(); };
    const auto first = std::ranges::find_if(model.blocks, uses);
    if (first != model.blocks.end()) model.params[at(param)].block = static_cast<int>(first - model.blocks.begin());
}

}  // namespace

int find_param(const ModelSpec& model, const std::string& name) {
    const auto found = std::ranges::find_if(model.params, [&](const ParamSpec& param) {
        return !param.added && (param.name == name || (!param.tied_name.empty() && param.tied_name == name));
    });
    WINDLASS_CHECK(found != model.params.end(), "the model has no {}", name);
    return static_cast<int>(found - model.params.begin());
}

std::string tree_name(const ModelSpec& model, std::string_view name) {
    if (is_head(name)) return fmt::format("{}{}", kHeadModule, name.substr(name.rfind('.')));
    if (!name.starts_with(model.file_prefix)) return std::string(name);
    return fmt::format("{}{}", model.tree_prefix, name.substr(model.file_prefix.size()));
}

bool is_in_modules(std::string_view param, std::span<const std::string> modules) {
    for (size_t dot = param.rfind('.'); dot != param.npos && dot > 0; dot = param.rfind('.', dot - 1)) {
        const std::string_view module = param.substr(0, dot);
        if (std::ranges::any_of(modules, [&](const std::string& name) { return module.ends_with(name); })) return true;
    }
    return false;
}

std::vector<std::string> params_of_modules(const ModelSpec& model, std::span<const std::string> modules) {
    std::vector<std::string> names;
    for (const ParamSpec& param : model.params) {
        if (param.added) continue;
        for (const std::string& name : {param.name, param.tied_name})
            if (!name.empty() && is_in_modules(tree_name(model, name), modules)) names.push_back(name);
    }
    return names;
}

std::vector<TableCopy> mark_whole(ModelSpec& model, const AdapterSettings& settings) {
    std::vector<TableCopy> copies;
    const auto names = [&](const std::string& name) {
        return std::ranges::find(settings.whole, name) != settings.whole.end();
    };
    for (const std::string& name : settings.whole) {
        const int index = find_param(model, name);
        ParamSpec& param = model.params[at(index)];
        const bool is_tied = !param.tied_name.empty() && !settings.keeps_ties;
        const bool has_both = is_tied && names(param.name) && names(param.tied_name);
        // Of two ends that both train, the embedding's keeps the model's parameter.
        if (!is_tied || (has_both && name == ends_of(param).embedding))
            param.is_whole = true;
        else
            copies.push_back(copy_of(model, index, name));
    }
    return copies;
}

void place_copy(ModelSpec& model, const TableCopy& copy, int index) {
    for_blocks(model, [&](Block& block) {
        for (size_t slot = 0; slot < block.params.size(); ++slot) {
            const bool is_end = looks_up(*block.program, slot) != copy.is_head;
            if (block.params[slot] == copy.of && is_end) block.params[slot] = index;
        }
    });
    find_home(model, copy.of);
    find_home(model, index);
}

bool has_copies(const ModelSpec& model) {
    return std::ranges::any_of(model.params,
                               [](const ParamSpec& param) { return param.added && !param.added->copy_of.empty(); });
}

UntiedModel untied(const ModelSpec& model) {
    UntiedModel made{.model = model, .from = {}};
    made.model.params.clear();
    for (size_t index = 0; index < model.params.size(); ++index) {
        ParamSpec param = model.params[index];
        if (param.added && param.added->copy_of.empty()) continue;
        if (param.added) {  // the other end of the table has the other name
            const ParamSpec& table = model.params[at(find_param(model, param.added->copy_of))];
            param.name = param.added->layer + std::string(kTableEnd);
            param.added.reset();
            ParamSpec& other = made.model.params[at(find_param(made.model, table.name))];
            const Ends ends = ends_of(table);
            other.name = param.name == ends.head ? ends.embedding : ends.head;
            other.alias = "", other.tied_name = "";
        }
        made.model.params.push_back(std::move(param));
        made.from.push_back(static_cast<int>(index));
    }
    return made;
}

}  // namespace windlass
