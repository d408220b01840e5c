#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/math.h"
#include "base/units.h"
#include "format/model_folder_writer.h"
#include "model/adapters/peft.h"
#include "model/adapters/tokens.h"
#include "model/adapters/whole.h"

namespace windlass {
namespace {

constexpr int64_t kSavePieceElements = int64_t{1} << 17;
constexpr int64_t kNumberBytes = 4;  // f32

// "a.b.c" -> "b.c" of two words.
std::string_view last_words(std::string_view name, int words) {
    size_t dot = name.size();
    for (int word = 0; word < words && dot != name.npos; ++word) dot = dot == 0 ? name.npos : name.rfind('.', dot - 1);
    return dot == name.npos ? name : name.substr(dot + 1);
}

// Names of all modules that target_modules may hit, linear or not, by the parameters they hold.
std::set<std::string> all_modules(const ModelSpec& model) {
    std::set<std::string> modules;
    for (const ParamSpec& param : model.params) {
        if (param.added) continue;
        for (const std::string& name : {param.name, param.tied_name}) {
            if (name.find('.') == name.npos) continue;
            const std::string of_tree = tree_name(model, name);
            modules.insert(of_tree.substr(0, of_tree.rfind('.')));
        }
    }
    return modules;
}

// Of a model that sees as well, transformers' name for the part that text passes. The others, which are in no table
// here, have layers of the same last words.
bool is_inside_a_larger_model(const ModelSpec& model) {
    return model.tree_prefix.find("language_model.") != std::string::npos;
}

// The shortest names that match these modules and no other: peft gives each module that is named an adapter.
std::vector<std::string> target_names(const ModelSpec& model, const std::set<std::string>& adapted) {
    if (is_inside_a_larger_model(model)) return {adapted.begin(), adapted.end()};
    const std::set<std::string> all = all_modules(model);
    for (const int words : {1, 2}) {
        std::set<std::string> names;
        for (const std::string& module : adapted) names.emplace(last_words(module, words));
        const std::vector<std::string> list(names.begin(), names.end());
        const auto is_right = [&](const std::string& module) {
            return is_named_by(module, list) == adapted.contains(module);
        };
        if (std::ranges::all_of(all, is_right)) return list;
    }
    return {adapted.begin(), adapted.end()};
}

// Part of an adapter of a layer.
bool is_of_layer(const ParamSpec& param) {
    return param.added && param.added->copy_of.empty();
}

bool is_saved(const ParamSpec& param) {
    return param.added ? param.added->first.is_in_files() : param.is_whole;
}

// Of layers with an adapter of the model's kind.
bool is_of_kind(const ModelSpec& model, const std::string& layer) {
    return &kind_of_layer(*model.adapter, layer) == &find_adapter(model.adapter->kind);
}

std::set<std::string> adapted_modules(const ModelSpec& model) {
    std::set<std::string> modules;
    for (const ParamSpec& param : model.params) {
        if (is_of_layer(param) && is_of_kind(model, param.added->layer))
            modules.insert(module_name(model, param.added->layer));
    }
    return modules;
}

// Whole names of the modules that train whole; null: none do.
Json whole_modules(const ModelSpec& model) {
    std::set<std::string> modules;
    for (const std::string& name : model.adapter->whole) {
        const std::string param = tree_name(model, name);
        modules.insert(param.substr(0, param.rfind('.')));
    }
    return modules.empty() ? Json() : Json(modules);
}

bool any_is_in_out(const ModelSpec& model) {
    return std::ranges::any_of(adapted_layers(model), [&](int each) {
        const LinearLayer layer = linear_layer(model, each);
        return layer.in_out && !layer.is_table;
    });
}

// What some layers have of their own, by the names of their modules.
void write_by_module(const ModelSpec& model, const AdapterKind& kind, Json& config) {
    const std::set<std::string> adapted = adapted_modules(model);
    for (const auto& [layer, own] : model.adapter->layers) {
        const std::string module = module_name(model, layer);
        if (!adapted.contains(module)) continue;
        Json said = Json::object();
        kind.write_config(model.adapter->of_layer(layer), said);
        for (const auto& [field, of] : kind.by_module) {
            if (config[field].is_array())
                config[field].push_back(module);
            else if (said[of] != config[of])
                config[field][module] = said[of];
        }
    }
}

// The tokens of the table of tokens, or of each table by the name of its module.
Json tokens_json(const ModelSpec& model) {
    const auto& tokens = model.adapter->tokens;
    if (const std::string layer = tokens.begin()->first; tokens.size() == 1 && layer != layer_name(model, kHeadLayer))
        return tokens.begin()->second;
    Json json = Json::object();
    for (const auto& [layer, ids] : tokens) json[module_name(model, layer)] = ids;
    return json;
}

std::string config_text(const ModelSpec& model, const PeftOptions& options) {
    const AdapterKind& kind = find_adapter(model.adapter->kind);
    Json config = {{"peft_type", kind.peft_type},
                   {"task_type", "CAUSAL_LM"},
                   {"base_model_name_or_path", options.base_name},
                   {"revision", options.base_revision.empty() ? Json() : Json(options.base_revision)},
                   {"inference_mode", true},
                   {"auto_mapping", nullptr},
                   {"target_modules", target_names(model, adapted_modules(model))},
                   {"modules_to_save", whole_modules(model)},
                   {"fan_in_fan_out", any_is_in_out(model)}};
    if (model.adapter->keeps_ties) config["ensure_weight_tying"] = true;
    if (!kind.is_of_tokens && !model.adapter->tokens.empty()) config["trainable_token_indices"] = tokens_json(model);
    kind.write_config(*model.adapter, config);
    write_by_module(model, kind, config);
    // peft refuses names in such a list that are not among the targets, word by word.
    const auto has_names = [&](const auto& each) {
        return config[each.field].is_array() && !config[each.field].empty();
    };
    if (std::ranges::any_of(kind.by_module, has_names)) config["target_modules"] = adapted_modules(model);
    return config.dump(2) + "\n";
}

// By the names of added parameters.
std::map<std::string, Shape> peft_shapes(const ModelSpec& model) {
    std::map<std::string, Shape> shapes;
    for (const int each : adapted_layers(model)) {
        const std::string layer = layer_name(model, each);
        for (const AdapterPart& part :
             kind_of_layer(*model.adapter, layer).parts(linear_layer(model, each), model.adapter->of_layer(layer)))
            shapes[fmt::format("{}.{}", layer, part.name)] = part.peft_shape;
    }
    return shapes;
}

// The names of a parameter's tensors: of a table that stays tied one for each end, which peft asks for, and so of rows
// of one where they are all that the adapter has.
std::vector<std::string> names_in_file(const ModelSpec& model, const ParamSpec& param) {
    std::vector<std::string> names = {peft_name(model, param)};
    if (is_token_rows(model, param) && is_of_kind(model, param.added->layer) &&
        !shared_tokens(model, *model.adapter).empty()) {
        ParamSpec twin = param;
        twin.added->layer = layer_name(model, kHeadLayer);
        names.push_back(peft_name(model, twin));
    }
    if (model.adapter->keeps_ties && !param.added && !param.tied_name.empty()) {
        ParamSpec twin = param;
        twin.name = param.tied_name;
        names.push_back(peft_name(model, twin));
    }
    return names;
}

std::vector<TensorSpec> tensors_of(const ModelSpec& model) {
    const std::map<std::string, Shape> shapes = peft_shapes(model);
    std::vector<TensorSpec> tensors;
    for (const ParamSpec& param : model.params) {
        if (!is_saved(param)) continue;
        const Shape shape = is_of_layer(param) ? shapes.at(param.name) : param.shape;
        for (const std::string& name : names_in_file(model, param)) tensors.push_back({name, DType::f32, shape});
    }
    return tensors;
}

// The numbers [first, first + numbers.size()) of a parameter; of one that is turned whole rows, which are a piece of
// each row of its tensor.
void write_numbers(ModelFolderWriter& writer, const std::string& name, const ParamSpec& param, int64_t first,
                   std::span<const float> numbers) {
    if (!param.added || !param.added->is_turned)
        return writer.write(name, first * kNumberBytes, std::as_bytes(numbers));
    const int64_t rows = param.shape[0], cols = param.shape[1], count = div_exact(std::ssize(numbers), cols);
    std::vector<float> piece(at(count));
    for (int64_t col = 0; col < cols; ++col) {
        for (int64_t row = 0; row < count; ++row) piece[at(row)] = numbers[at(row * cols + col)];
        writer.write(name, (col * rows + first / cols) * kNumberBytes, std::as_bytes(std::span(piece)));
    }
}

}  // namespace

void save_peft(FileSystem& files, const std::string& target, const ModelSpec& model, const PeftOptions& options,
               const ReadMasters& masters) {
    ModelFolderContent content{.config_text = config_text(model, options),
                               .tensors = tensors_of(model),
                               .never_replaced = options.never_replaced,
                               .config_name = kAdapterConfigName,
                               .chat_template = options.chat_template,
                               .card = options.card};
    content.shards.files = {kAdapterWeightsName};
    content.shards.file_of.assign(content.tensors.size(), 0);
    if (!options.base_checksum.empty()) content.metadata = {{kBaseChecksumKey, options.base_checksum}};
    ModelFolderWriter writer(files, target, std::move(content), options.overwrite);
    std::vector<float> numbers;
    for (int index = 0; index < static_cast<int>(model.params.size()); ++index) {
        const ParamSpec& param = model.params[at(index)];
        if (!is_saved(param)) continue;
        const int64_t row = param.added && param.added->is_turned ? param.shape[1] : 1;
        const int64_t piece = std::max(row, round_down(kSavePieceElements, row));
        for (const std::string& name : names_in_file(model, param)) {
            for (int64_t first = 0; first < param.numel(); first += piece) {
                numbers.resize(at(std::min(piece, param.numel() - first)));
                masters(index, first, numbers);
                if (is_token_rows(model, param)) add_own_rows(model, param, first, numbers, masters);
                write_numbers(writer, name, param, first, numbers);
            }
        }
    }
    writer.finish();
}

int64_t peft_bytes(const ModelSpec& model) {
    return SafetensorsWriter::file_bytes(tensors_of(model)) + kMiB;
}

}  // namespace windlass
