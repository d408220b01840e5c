#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "model/adapters/peft.h"
#include "model/adapters/whole.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr std::string_view kRoot = "base_model.model.";
constexpr int64_t kLoadPieceElements = int64_t{1} << 18;

// By each name that a module may have in the file, the linear layer's weight.
std::map<std::string, int, std::less<>> layers_by_name(const ModelSpec& base) {
    std::map<std::string, int, std::less<>> index;
    for (const int weight : linear_layers(base)) {
        const std::string_view layer = layer_of(base.params[at(weight)]);
        index.emplace(module_name(base, layer), weight);
        index.emplace(layer, weight);  // as the files of this base name it
    }
    return index;
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

// By either name of a tied table.
const ParamSpec& param_of(const ModelSpec& base, const std::string& name) {
    const auto found = std::ranges::find_if(
        base.params, [&](const ParamSpec& each) { return each.name == name || each.tied_name == name; });
    WINDLASS_CHECK(found != base.params.end(), "the model has no {}", name);
    return *found;
}

// What names say that is known and not there.
std::string reason_of(std::string_view name) {
    if (name.find("lora_magnitude_vector") != name.npos) return "DoRA is not implemented";
    if (name.find("lora_embedding_") != name.npos) return "adapters of embeddings are not implemented";
    if (name.find(".lora_") == name.npos && name.find(".ia3_") == name.npos && name.find(".lsp_") == name.npos)
        return "it is no part of an adapter, and \"modules_to_save\" names no module that has it";
    return "it belongs to no linear layer of this model";
}

struct PeftPlace {
    std::string_view module, part;
};

// "base_model.model." MODULE "." PART
std::optional<PeftPlace> place_of(std::string_view name, const AdapterKind& kind, const AdapterSettings& settings) {
    if (!name.starts_with(kRoot)) return std::nullopt;
    name.remove_prefix(kRoot.size());
    for (const AdapterPart& part : kind.parts({1, 1, false}, settings)) {
        if (!name.ends_with(part.name) || name.size() <= part.name.size() + 1) continue;
        const size_t dot = name.size() - part.name.size() - 1;
        if (name[dot] == '.') return PeftPlace{name.substr(0, dot), name.substr(dot + 1)};
    }
    return std::nullopt;
}

// whose: of the shape that is expected.
void check_tensor(const AdapterFolder& folder, const TensorEntry& tensor, const Shape& shape,
                  const std::string& whose) {
    if (tensor.shape != shape)
        throw of_tensor(folder, tensor,
                        fmt::format("is {}, expected {} of {}", tensor.shape.to_string(), shape.to_string(), whose),
                        "the base that the adapter was trained over, and the two files of one adapter");
    const bool is_number = tensor.dtype == DType::f32 || tensor.dtype == DType::bf16 || tensor.dtype == DType::f16;
    if (!is_number)
        throw of_tensor(folder, tensor, fmt::format("holds {}, expected F32, BF16 or F16", tensor.dtype_name),
                        "an adapter that peft has saved");
}

}  // namespace

std::string peft_name(const ModelSpec& model, const ParamSpec& param) {
    if (!param.added) return whole_name(model, param.name);
    return fmt::format("{}{}.{}", kRoot, module_name(model, param.added->layer), param.added->part);
}

std::vector<std::string> peft_whole(const AdapterFolder& folder, const PeftConfig& peft, const ModelSpec& base) {
    std::set<std::string> names;
    for (const std::string& name : params_of_modules(base, peft.whole_modules)) {
        const ParamSpec& param = param_of(base, name);
        // Of a table that stays tied, the file has either end or both.
        const bool stays_tied = peft.settings.keeps_ties && !param.tied_name.empty();
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
    return {names.begin(), names.end()};
}

std::vector<int> peft_layers(const AdapterFolder& folder, const AdapterSettings& settings, const ModelSpec& base) {
    const AdapterKind& kind = find_adapter(settings.kind);
    const std::map<std::string, int, std::less<>> layers = layers_by_name(base);
    std::map<int, std::set<std::string>> found;  // parts by weight
    std::set<std::string> whole;
    for (const std::string& name : settings.whole) {
        whole.insert(whole_name(base, name));
        if (settings.keeps_ties) whole.insert(whole_name(base, param_of(base, name).tied_name));
    }
    for (const TensorEntry& tensor : folder.tensors()) {
        if (whole.contains(tensor.name)) continue;
        const std::optional<PeftPlace> place = place_of(tensor.name, kind, settings);
        const auto layer = place ? layers.find(place->module) : layers.end();
        if (layer == layers.end())
            throw of_tensor(folder, tensor, reason_of(tensor.name),
                            "the base that the adapter was trained over, whose linear layers have other names than "
                            "this model's; or to merge it with peft");
        const LinearLayer shape = linear_layer(base, layer->second);
        const AdapterSettings own = settings.of_layer(layer_of(base.params[at(layer->second)]));
        for (const AdapterPart& part : kind.parts(shape, own)) {
            if (part.name == place->part)
                check_tensor(folder, tensor, part.peft_shape,
                             fmt::format("this model's layer and the rank in {}", kAdapterConfigName));
        }
        if (!found[layer->second].emplace(place->part).second)
            throw of_tensor(folder, tensor, "its layer has this part under two names",
                            "an adapter that peft has saved");
    }
    std::vector<int> weights;
    for (const auto& [weight, parts] : found) {
        const AdapterSettings own = settings.of_layer(layer_of(base.params[at(weight)]));
        for (const AdapterPart& part : kind.parts(linear_layer(base, weight), own)) {
            if (!parts.contains(part.name))
                throw UserError(ExitCode::model, folder.weights_path(), "has {} of {}, but not its {}", *parts.begin(),
                                module_name(base, layer_of(base.params[at(weight)])), part.name)
                    .hint("the file is incomplete; fetch the adapter again");
        }
        weights.push_back(weight);
    }
    return weights;
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

}  // namespace

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
    for (int64_t done = 0; done < std::ssize(out); done += kLoadPieceElements) {
        const int64_t count = std::min(kLoadPieceElements, std::ssize(out) - done);
        read_numbers(folder, *tensor, first + done, out.subspan(at(done), at(count)));
    }
}

}  // namespace windlass
