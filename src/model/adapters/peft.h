// peft.h: adapters of ours as peft's files name them, and peft's as parts of a model (docs/format/adapter.md).
//
// Everything that can be wrong with an adapter is said before a number of it, or of its base, is read.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "model/adapters/adapter.h"
#include "model/save.h"

namespace windlass {

// What adapter_config.json says.
struct PeftConfig {
    AdapterSettings settings;
    std::string base;  // base_model_name_or_path; may be empty
    // target_modules: names, or one expression for whole names, as Python's re.fullmatch takes them. Empty: not said.
    std::vector<std::string> targets;
    bool is_expression = false;
    std::vector<std::string> whole_modules = {};  // modules_to_save
};
// UserError(model) naming the field that this version does not know, or that has a value without meaning.
PeftConfig read_peft_config(const AdapterFolder& folder);

// Whether a pattern of the file fits the name of a module: the whole name, or its end after a dot.
using FitsModule = std::function<bool(const std::string& pattern, bool is_whole, const std::string& module)>;
// Adds to the settings the ranks, scales and inputs that the file gives to some modules of this model
// (AdapterKind::by_module), each by the first pattern that fits, as peft does. UserError(model) naming the field.
void read_by_module(const AdapterFolder& folder, const ModelSpec& model, const FitsModule& fits,
                    AdapterSettings& settings);

// Adds to the settings the tokens whose rows the folder has. UserError(model) naming the field.
void read_peft_tokens(const AdapterFolder& folder, const ModelSpec& base, const FitsModule& fits, PeftConfig& peft);

// Adds to the settings the parameters of `base` that the folder holds whole, and whether they stay tied.
// UserError(model) where it lacks one of a module that modules_to_save names, or holds one of another shape.
void read_peft_whole(const AdapterFolder& folder, const ModelSpec& base, PeftConfig& peft);

// The layers of `base` that the folder's other tensors belong to, in order. UserError(model) for a tensor that belongs
// to none, half a pair, a shape that is not that of the layer and the rank, a type without numbers, a layer that
// layers_to_transform does not name.
std::vector<int> peft_layers(const AdapterFolder& folder, const AdapterSettings& settings, const ModelSpec& base);
// UserError(model) where layers_to_transform names some layers and misses one here: peft would leave it out.
void check_layer_choice(const AdapterFolder& folder, const ModelSpec& base, const std::vector<int>& layers);

// The name that peft has for an added parameter, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", or
// for one that trains whole: "base_model.model.lm_head.weight".
std::string peft_name(const ModelSpec& model, const ParamSpec& param);

// peft may save the table of a module whose adapter it saves, too ("embed_tokens.base_layer.weight"). UserError(model)
// naming the tensor if it is another table than the base's, but for the rounding of the tensor's type. A base without
// weights is not compared.
void check_peft_tables(const AdapterFolder& folder, const AdapterSettings& settings, const ModelFolder& base,
                       const ModelSpec& model);

// All numbers are finite: UserError(model) names the tensor and the element that is not.
void check_peft_numbers(const AdapterFolder& folder);
// Elements [first, first + out.size()) of a parameter that a model has from `folder`, which fits it.
void load_peft_elements(const AdapterFolder& folder, const ModelSpec& model, const ParamSpec& param, int64_t first,
                        std::span<float> out);

// Whether target_modules, as written, includes this module: an entry equals its name, or its last part after a dot.
bool is_named_by(std::string_view module, const std::vector<std::string>& targets);

struct PeftOptions {
    std::string base_name;           // base_model_name_or_path
    std::string base_revision = {};  // empty: none
    std::string base_checksum = {};  // kBaseChecksumKey; empty: left out
    std::string chat_template = {};  // text of one that is not the base's; empty: the base's
    std::string card = {};           // text of README.md; empty: none
    bool overwrite = false;
    std::vector<std::string> never_replaced = {};
};
// Writes the model's adapter, f32, so that the folder appears whole or not at all. `masters` is asked for the added
// parameters, those that train whole, and of a table with trained tokens for rows as they are computed with.
void save_peft(FileSystem& files, const std::string& target, const ModelSpec& model, const PeftOptions& options,
               const ReadMasters& masters);
// Bytes of its two files, about.
int64_t peft_bytes(const ModelSpec& model);

// UserError(usage) where fused weights have no place: what an adapter adds to one end of a tied table.
void require_fusable(const ModelSpec& model);

// What is evaluated, as weights of the base alone: of a layer with an adapter, what `masters` gives for its own
// parameters with what the adapter has learnt. Rows of tokens replace the base's: `computed` gives
// those that the run computed with; null: as `masters`, which outlives what is returned.
ReadMasters fused_masters(const ModelSpec& model, const ReadMasters& masters, const ReadMasters& computed = nullptr);
// By parameter, whether it has nothing of an adapter: neither weight nor bias of a layer with one.
std::vector<uint8_t> without_adapter(const ModelSpec& model);

}  // namespace windlass
