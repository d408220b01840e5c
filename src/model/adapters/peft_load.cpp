#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "model/adapters/peft.h"
#include "model/adapters/whole.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr std::string_view kRoot = "base_model.model.";
constexpr std::string_view kTable = ".base_layer.weight";
constexpr std::string_view kTokenRows = "trainable_tokens_delta";
constexpr const char* kOtherTable = "the base that the adapter was trained over; or to merge it with peft";
constexpr int64_t kLoadPieceElements = int64_t{1} << 18;

using LayersByName = std::map<std::string, int, std::less<>>;

// By each name that a module may have in the file.
LayersByName layers_by_name(const ModelSpec& base, const AdapterKind& kind) {
    LayersByName index;
    for (const int each : adaptable_layers(base, kind)) {
        const std::string layer = layer_name(base, each);
        index.emplace(module_name(base, layer), each);
        index.emplace(layer, each);  // as the files of this base name it
    }
    return index;
}

// "base_model.model." MODULE ".base_layer.weight", or without ".base_layer" where MODULE has no adapter, of a module
// whose table is the base's; nothing for others.
std::optional<int> table_of(const TensorEntry& tensor, const LayersByName& layers, const ModelSpec& base) {
    std::string_view name = tensor.name;
    const std::string_view end = name.ends_with(kTable) ? kTable : kTable.substr(kTable.rfind('.'));
    if (!name.starts_with(kRoot) || !name.ends_with(end) || name.size() < kRoot.size() + end.size())
        return std::nullopt;
    name.remove_prefix(kRoot.size());
    name.remove_suffix(end.size());
    const auto layer = layers.find(name);
    if (layer == layers.end()) return std::nullopt;
    const bool is_table = layer->second == kHeadLayer || linear_layer(base, layer->second).is_table;
    return is_table ? std::optional(layer->second) : std::nullopt;
}

UserError of_tensor(const AdapterFolder& folder, const TensorEntry& tensor, std::string what, std::string hint) {
    UserError error(ExitCode::model, folder.weights_path(), "tensor {}: {}", tensor.name, what);
    error.hint(std::move(hint));
    return error;
}

// The name of a tensor that is the base's own, and trained whole.
std::string whole_name(const ModelSpec& base, std::string_view name) {
    return name.empty() ? "" : fmt::format("{}{}", kRoot, tree_name(base, name));
}

const ParamSpec& param_of(const ModelSpec& base, const std::string& name) {
    return base.params[at(find_param(base, name))];
}

// All tensors that AdapterSettings::whole names; of a table that stays tied both ends'.
std::set<std::string> whole_names(const ModelSpec& base, const AdapterSettings& settings) {
    std::set<std::string> names;
    for (const std::string& name : settings.whole) {
        names.insert(whole_name(base, name));
        if (settings.keeps_ties) names.insert(whole_name(base, param_of(base, name).tied_name));
    }
    return names;
}

// What names say that is known and not there.
std::string reason_of(std::string_view name, const AdapterKind& kind) {
    if (name.ends_with("lora_magnitude_vector"))
        return fmt::format("it is DoRA's, but \"use_dora\" in {} is not true: peft would leave it out",
                           kAdapterConfigName);
    if (name.ends_with(kTokenRows)) return fmt::format("{} names no tokens of this module", kAdapterConfigName);
    if (name.find(".lora_") == name.npos && name.find(".ia3_") == name.npos && name.find(".lsp_") == name.npos)
        return "it is no part of an adapter, and \"modules_to_save\" names no module that has it";
    return fmt::format("it belongs to no {} of this model", kind.write_narrow == nullptr ? "linear layer" : "layer");
}

struct PeftPlace {
    std::string_view module, part;
};

// "base_model.model." MODULE "." PART
std::optional<PeftPlace> place_of(std::string_view name, const AdapterKind& kind, const AdapterSettings& settings) {
    if (!name.starts_with(kRoot)) return std::nullopt;
    name.remove_prefix(kRoot.size());
    std::vector<AdapterPart> parts = kind.parts({1, 1}, settings);
    if (kind.write_narrow != nullptr)
        std::ranges::move(kind.parts({.in_cols = 1, .out_cols = 1, .is_table = true}, settings),
                          std::back_inserter(parts));
    for (const auto& [layer, tokens] : settings.tokens)
        std::ranges::move(kind_of_layer(settings, layer).parts({1, 1}, settings.of_layer(layer)),
                          std::back_inserter(parts));
    for (const AdapterPart& part : parts) {
        if (!part.first.is_in_files() || !name.ends_with(part.name) || name.size() <= part.name.size() + 1) continue;
        const size_t dot = name.size() - part.name.size() - 1;
        if (name[dot] == '.') return PeftPlace{name.substr(0, dot), name.substr(dot + 1)};
    }
    return std::nullopt;
}

void require_numbers(const AdapterFolder& folder, const TensorEntry& tensor) {
    if (tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16) return;
    throw of_tensor(folder, tensor, fmt::format("holds {}, expected F32, BF16 or F16", tensor.dtype_name),
                    "an adapter that peft has saved");
}

// whose: of the shape that is expected.
void check_tensor(const AdapterFolder& folder, const TensorEntry& tensor, const Shape& shape,
                  const std::string& whose) {
    if (tensor.shape != shape)
        throw of_tensor(folder, tensor,
                        fmt::format("is {}, expected {} of {}", tensor.shape.to_string(), shape.to_string(), whose),
                        "the base that the adapter was trained over, and the two files of one adapter");
    require_numbers(folder, tensor);
}

void check_part(const AdapterFolder& folder, const TensorEntry& tensor, std::span<const AdapterPart> parts,
                std::string_view name) {
    const auto found = std::ranges::find(parts, name, &AdapterPart::name);
    if (found == parts.end()) {
        std::vector<std::string> names;
        for (const AdapterPart& part : parts) {
            if (part.first.is_in_files()) names.push_back(part.name);
        }
        throw of_tensor(folder, tensor, fmt::format("its layer has {}, no {}", fmt::join(names, " and "), name),
                        "the base that the adapter was trained over");
    }
    const std::string_view of = found->name.ends_with(kTokenRows) ? "tokens" : "rank";
    check_tensor(folder, tensor, found->peft_shape,
                 fmt::format("this model's layer and the {} in {}", of, kAdapterConfigName));
}

// Of this layer, or of the other end of its tied table.
bool trains_tokens(const ModelSpec& base, int layer, const AdapterSettings& settings) {
    const bool is_shared = layer == kHeadLayer && !shared_tokens(base, settings).empty();
    return is_shared || settings.tokens.contains(layer_name(base, layer));
}

std::vector<AdapterPart> parts_of(const ModelSpec& base, int layer, const AdapterSettings& settings) {
    const std::string name = layer_name(base, layer);
    return kind_of_layer(settings, name).parts(linear_layer(base, layer), settings.of_layer(name));
}

// A table that peft saved next to its adapter is as large as the base's.
void check_table(const AdapterFolder& folder, const TensorEntry& tensor, const ParamSpec& table) {
    if (tensor.shape != table.shape)
        throw of_tensor(folder, tensor,
                        fmt::format("is {}, the base's table is {}", tensor.shape.to_string(), table.shape.to_string()),
                        kOtherTable);
    require_numbers(folder, tensor);
}

}  // namespace

std::string peft_name(const ModelSpec& model, const ParamSpec& param) {
    if (!param.added) return whole_name(model, param.name);
    return fmt::format("{}{}.{}", kRoot, module_name(model, param.added->layer), param.added->part);
}

namespace {

// peft ties the ends of a table that it knows by these names, and no others.
bool is_tied_by_peft(const ModelSpec& base, const std::string& name) {
    const std::string param = tree_name(base, name);
    return param == "lm_head.weight" || param.ends_with("embed_tokens.weight");
}

}  // namespace

void read_peft_whole(const AdapterFolder& folder, const ModelSpec& base, PeftConfig& peft) {
    const std::vector<std::string> named = params_of_modules(base, peft.whole_modules);
    const bool ties =
        peft.settings.keeps_ties &&
        (named.empty() || std::ranges::any_of(named, [&](const auto& name) { return is_tied_by_peft(base, name); }));
    peft.settings.keeps_ties = ties;
    std::set<std::string> names;
    for (const std::string& name : named) {
        const ParamSpec& param = param_of(base, name);
        // Of a table that stays tied, the file has either end or both.
        const bool stays_tied = ties && !param.tied_name.empty();
        bool is_there = false;
        for (const std::string& each : stays_tied ? std::vector{param.name, param.tied_name} : std::vector{name}) {
            const TensorEntry* const tensor = folder.find(whole_name(base, each));
            if (tensor == nullptr) continue;
            check_tensor(folder, *tensor, param.shape, "the base");
            is_there = true;
        }
        if (!is_there)
            throw UserError(ExitCode::model, folder.weights_path(), "has no {}, whose module \"modules_to_save\" names",
                            whole_name(base, name))
                .hint("the file is incomplete, or of another base; fetch the adapter again");
        names.insert(stays_tied ? param.name : name);
    }
    peft.settings.whole = {names.begin(), names.end()};
}

std::vector<int> peft_layers(const AdapterFolder& folder, const AdapterSettings& settings, const ModelSpec& base) {
    const AdapterKind& kind = find_adapter(settings.kind);
    const LayersByName layers = layers_by_name(base, kind);
    std::map<int, std::set<std::string>> found;  // parts by layer
    const std::set<std::string> whole = whole_names(base, settings);
    for (const TensorEntry& tensor : folder.tensors()) {
        if (whole.contains(tensor.name)) continue;
        if (const std::optional<int> table = table_of(tensor, layers, base)) {
            check_table(folder, tensor, base.params[at(weight_of_layer(base, *table))]);
            continue;
        }
        const std::optional<PeftPlace> place = place_of(tensor.name, kind, settings);
        const auto layer = place ? layers.find(place->module) : layers.end();
        const bool has_tokens = place && place->part.ends_with(kTokenRows);
        if (layer == layers.end() || (has_tokens && !trains_tokens(base, layer->second, settings)))
            throw of_tensor(folder, tensor, reason_of(tensor.name, kind),
                            "the base that the adapter was trained over, whose layers have other names than this "
                            "model's; or to merge it with peft");
        // Of a tied table peft may write the rows under both names (check_peft_tables).
        const bool is_twin =
            layer->second == kHeadLayer && place->part == rows_part(settings) && !shared_tokens(base, settings).empty();
        const int each =
            is_twin ? layers.find(module_name(base, shared_tokens(base, settings)))->second : layer->second;
        if (!may_adapt(base, each, settings) && !settings.tokens.contains(layer_name(base, each)))
            throw of_tensor(folder, tensor, "is DoRA's, which is implemented for linear layers other than the head",
                            "to merge it with peft, and to give the merged model");
        check_part(folder, tensor, parts_of(base, each, settings), place->part);
        if (is_twin) continue;
        if (!found[layer->second].emplace(place->part).second)
            throw of_tensor(folder, tensor, "its layer has this part under two names",
                            "an adapter that peft has saved");
    }
    std::vector<int> adapted;
    for (const auto& [each, parts] : found) {
        const std::string layer = layer_name(base, each);
        for (const AdapterPart& part : parts_of(base, each, settings)) {
            if (part.first.is_in_files() && !parts.contains(part.name))
                throw UserError(ExitCode::model, folder.weights_path(), "has {} of {}, but not its {}", *parts.begin(),
                                module_name(base, layer), part.name)
                    .hint("the file is incomplete; fetch the adapter again");
        }
        if (!settings.tokens.contains(layer)) adapted.push_back(each);
    }
    for (const auto& [layer, tokens] : settings.tokens) {
        if (std::ranges::any_of(found, [&](const auto& each) { return layer_name(base, each.first) == layer; }))
            continue;
        throw UserError(ExitCode::model, folder.weights_path(), "has no rows of {}, whose tokens {} names",
                        module_name(base, layer), kAdapterConfigName)
            .hint("the file is incomplete; fetch the adapter again");
    }
    if (adapted.empty() && !kind.is_of_tokens)
        throw UserError(ExitCode::model, folder.weights_path(), "holds no {} of a layer, only whole tensors",
                        kind.peft_type)
            .hint("to merge it with peft, and to give the merged model");
    check_layer_choice(folder, base, adapted);
    return adapted;
}

namespace {

void read_numbers(const AdapterFolder& folder, const TensorEntry& tensor, int64_t first, std::span<float> out) {
    const int64_t width = dtype_bytes(*tensor.dtype);
    std::vector<std::byte> bytes(at(std::ssize(out) * width));
    folder.read(tensor, first * width, bytes);
    decode_numbers(*tensor.dtype, bytes, out);
    const auto bad = std::ranges::find_if(out, [](float value) { return !std::isfinite(value); });
    if (bad == out.end()) return;
    throw UserError(ExitCode::model, folder.weights_path(), "tensor {} is {} at element {}", tensor.name, *bad,
                    first + (bad - out.begin()))
        .hint("an earlier checkpoint of the adapter: this one holds a number that is not finite");
}

// Numbers [first, first + out.size()) of the transpose of a tensor [cols, rows]: of some of its columns a piece of each
// row at a time.
void read_turned(const AdapterFolder& folder, const TensorEntry& tensor, int64_t first, std::span<float> out) {
    const int64_t cols = tensor.shape[0], rows = tensor.shape[1], end = first + std::ssize(out);
    std::vector<float> piece;
    for (int64_t row = first / cols; row * cols < end; row += kLoadPieceElements) {
        const int64_t count = std::min({kLoadPieceElements, rows - row, div_up(end, cols) - row});
        piece.resize(at(count));
        for (int64_t col = 0; col < cols; ++col) {
            read_numbers(folder, tensor, col * rows + row, piece);
            for (int64_t i = 0; i < count; ++i) {
                const int64_t element = (row + i) * cols + col;
                if (element >= first && element < end) out[at(element - first)] = piece[at(i)];
            }
        }
    }
}

// How far a number may be from the one that was rounded to this type, to the nearest.
float rounding_of(DType dtype, float number) {
    if (dtype == DType::bf16) return std::abs(number) * 0x1p-8f;
    return dtype == DType::f16 ? std::max(std::abs(number) * 0x1p-11f, 0x1p-25f) : 0.0f;
}

void compare_table(const AdapterFolder& folder, const TensorEntry& tensor, const ModelFolder& base,
                   const ParamSpec& table) {
    std::vector<float> theirs, ours;
    for (int64_t first = 0; first < table.numel(); first += kLoadPieceElements) {
        theirs.resize(at(std::min(kLoadPieceElements, table.numel() - first)));
        ours.resize(theirs.size());
        read_numbers(folder, tensor, first, theirs);
        load_elements(base, table, first, ours);
        for (size_t i = 0; i < ours.size(); ++i) {
            if (std::abs(theirs[i] - ours[i]) <= rounding_of(*tensor.dtype, ours[i])) continue;
            throw of_tensor(folder, tensor,
                            fmt::format("is {} at element {}, where the base's {} is {}", theirs[i],
                                        first + static_cast<int64_t>(i), table.name, ours[i]),
                            kOtherTable);
        }
    }
}

// The ends of a table that stays tied, where the file has both.
void compare_ends(const AdapterFolder& folder, const TensorEntry& one, const TensorEntry& other,
                  const std::string& way_out) {
    std::vector<float> left, right;
    const int64_t count = one.shape.numel();
    for (int64_t first = 0; first < count; first += kLoadPieceElements) {
        left.resize(at(std::min(kLoadPieceElements, count - first)));
        right.resize(left.size());
        read_numbers(folder, one, first, left);
        read_numbers(folder, other, first, right);
        const auto [bad, theirs] = std::ranges::mismatch(left, right);
        if (bad == left.end()) continue;
        throw of_tensor(folder, one,
                        fmt::format("is {} at element {}, where {}, which is tied to it, is {}", *bad,
                                    first + (bad - left.begin()), other.name, *theirs),
                        way_out);
    }
}

}  // namespace

void check_peft_tables(const AdapterFolder& folder, const AdapterSettings& settings, const ModelFolder& base,
                       const ModelSpec& model) {
    for (const std::string& name : settings.keeps_ties ? settings.whole : std::vector<std::string>()) {
        const TensorEntry *const one = folder.find(whole_name(model, name)), *const other = folder.find(whole_name(
                                                                                 model,
                                                                                 param_of(model, name).tied_name));
        if (one != nullptr && other != nullptr)
            compare_ends(
                folder, *one, *other,
                "\"ensure_weight_tying\": false, if each end was trained by itself; or fetch the adapter again");
    }
    if (const std::string layer = shared_tokens(model, settings); !layer.empty()) {
        const auto rows_of = [&](const std::string& name) {
            return folder.find(fmt::format("{}{}.{}", kRoot, module_name(model, name), rows_part(settings)));
        };
        const TensorEntry *const one = rows_of(layer), *const other = rows_of(layer_name(model, kHeadLayer));
        if (one != nullptr && other != nullptr)
            compare_ends(folder, *one, *other, "the adapter as peft saved it; fetch it again");
    }
    if (base.tensors().empty()) return;
    const LayersByName layers = layers_by_name(model, find_adapter(settings.kind));
    const std::set<std::string> whole = whole_names(model, settings);
    for (const TensorEntry& tensor : folder.tensors()) {
        if (whole.contains(tensor.name)) continue;
        if (const std::optional<int> layer = table_of(tensor, layers, model))
            compare_table(folder, tensor, base, model.params[at(weight_of_layer(model, *layer))]);
    }
}

void check_peft_numbers(const AdapterFolder& folder) {
    std::vector<float> numbers;
    for (const TensorEntry& tensor : folder.tensors()) {
        const int64_t count = tensor.shape.numel();
        for (int64_t first = 0; first < count; first += kLoadPieceElements) {
            numbers.resize(at(std::min(kLoadPieceElements, count - first)));
            read_numbers(folder, tensor, first, numbers);
        }
    }
}

void load_peft_elements(const AdapterFolder& folder, const ModelSpec& model, const ParamSpec& param, int64_t first,
                        std::span<float> out) {
    const TensorEntry* tensor = folder.find(peft_name(model, param));
    // By the name that the base's files have, where peft's lacks the prefix.
    if (tensor == nullptr) tensor = folder.find(fmt::format("{}{}", kRoot, param.name));
    if (tensor == nullptr && !param.tied_name.empty()) tensor = folder.find(whole_name(model, param.tied_name));
    if (tensor == nullptr || tensor->shape.numel() != param.numel())
        throw UserError(ExitCode::model, folder.weights_path(), "has no {} any more", param.name)
            .hint("again, with no other program writing to this folder");
    if (param.added && param.added->is_turned) return read_turned(folder, *tensor, first, out);
    for (int64_t done = 0; done < std::ssize(out); done += kLoadPieceElements) {
        const int64_t count = std::min(kLoadPieceElements, std::ssize(out) - done);
        read_numbers(folder, *tensor, first + done, out.subspan(at(done), at(count)));
    }
}

}  // namespace windlass
