// whole.h: parameters of a model that train whole next to its adapter: peft's modules_to_save.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"

namespace windlass {

// The name that transformers has for a parameter of the model by its name in the files: of the head "lm_head.weight",
// whatever is in front of the body's names.
std::string tree_name(const ModelSpec& model, std::string_view name);

// The parameters in modules with these names, each by its name in the files; a tied table, by the name of the module's
// end. As in peft, a name fits each module whose own name ends with it.
std::vector<std::string> params_of_modules(const ModelSpec& model, std::span<const std::string> modules);
// Whether a name in `modules` fits a module that has this parameter, by its name in transformers' tree.
bool is_in_modules(std::string_view param, std::span<const std::string> modules);

// The parameter of the model that has this name in its files; a tied table by either. None is a mistake of ours.
int find_param(const ModelSpec& model, const std::string& name);

// One end of a tied table that gets a parameter of its own.
struct TableCopy {
    int of = 0;            // the model's parameter
    bool is_head = false;  // else the embedding
    ParamSpec param;
};
// Marks the parameters that settings.whole names (ParamSpec::is_whole), and returns the copies that it asks for. The
// name of no parameter is a mistake of ours.
std::vector<TableCopy> mark_whole(ModelSpec& model, const AdapterSettings& settings);
// Puts parameter `index`, the copy, in the place of its end of the table, in all blocks.
void place_copy(ModelSpec& model, const TableCopy& copy, int index);

// A model with such copies as a folder holds it: its table has two names and is tied no longer, and the copies are the
// model's own. `from`: by parameter of `model`, the parameter that it was.
struct UntiedModel {
    ModelSpec model;
    std::vector<int> from;
};
UntiedModel untied(const ModelSpec& model);
bool has_copies(const ModelSpec& model);

}  // namespace windlass
