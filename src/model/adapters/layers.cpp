#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "model/adapters/visit_layers.h"
#include "model/adapters/whole.h"

namespace windlass {
namespace {

constexpr std::string_view kWeight = ".weight";

// Where a layer is first computed.
struct FoundLayer {
    const Block* block;
    const Node* node;
};

FoundLayer find_layer(const ModelSpec& model, int layer) {
    FoundLayer found{};
    for_layers(model, [&](const Block& block, const Node& node, int each) {
        if (each == layer && found.node == nullptr) found = {&block, &node};
    });
    WINDLASS_CHECK(found.node != nullptr, "the model has no layer {}", layer);
    return found;
}

void sort_once(std::vector<int>& layers) {
    std::ranges::sort(layers);
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
}

}  // namespace

LinearLayer layer_at(const Program& program, const Node& node) {
    const auto& [role, weight] = program.weights[at(node.weights[0])];
    const std::string name = role.substr(0, role.size() - kWeight.size());
    if (node.op == &kEmbedding) return {weight[0], weight[1], true, name, true};
    if (node.op == &kCrossEntropy) return {weight[1], weight[0], false, name};
    return {node.spec.in[0].cols, node.spec.out[0].cols, node.spec.get<LinearAttrs>().in_out, name};
}

bool is_layer(const Node& node) {
    if (node.op == &kEmbedding) return node.spec.get<EmbeddingAttrs>().index == EmbeddingAttrs::Index::token;
    return node.op == &kLinear || node.op == &kCrossEntropy;
}

std::string name_in(const ModelSpec& model, const Block& block, int weight) {
    const ParamSpec& param = model.params[at(block.params[at(weight)])];
    if (param.tied_name.empty() || param.name.ends_with(block.program->weights[at(weight)].role))
        return std::string(layer_of(param));
    return param.tied_name.substr(0, param.tied_name.size() - kWeight.size());
}

std::vector<int> linear_layers(const ModelSpec& model) {
    std::vector<int> weights;
    for_layers(model, [&](const Block&, const Node& node, int layer) {
        if (node.op == &kLinear && layer != kHeadLayer) weights.push_back(layer);
    });
    sort_once(weights);
    return weights;
}

std::vector<int> adaptable_layers(const ModelSpec& model, const AdapterKind& kind) {
    if (kind.write_narrow == nullptr) return linear_layers(model);
    std::vector<int> layers;
    for_layers(model, [&](const Block&, const Node& node, int layer) {
        if (!kind.is_of_tokens || node.op == &kEmbedding || layer == kHeadLayer) layers.push_back(layer);
    });
    sort_once(layers);
    return layers;
}

bool may_adapt(const ModelSpec& model, int layer, const AdapterSettings& settings) {
    return !settings.has_magnitudes || (layer != kHeadLayer && !linear_layer(model, layer).is_table);
}

std::vector<int> linear_layers_of_layers(const ModelSpec& model) {
    std::vector<int> weights = linear_layers(model);
    std::erase_if(weights, [&](int weight) { return model.params[at(weight)].layer < 0; });
    return weights;
}

std::vector<int> adapted_layers(const ModelSpec& model) {
    std::set<std::string_view> adapted;
    for (const ParamSpec& param : model.params) {
        if (param.added && param.added->copy_of.empty()) adapted.insert(param.added->layer);
    }
    std::vector<int> layers;
    for_layers(model, [&](const Block& block, const Node& node, int layer) {
        if (adapted.contains(name_in(model, block, node.weights[0]))) layers.push_back(layer);
    });
    sort_once(layers);
    return layers;
}

std::vector<ProjectedLayer> projected_layers(const ModelSpec& model) {
    if (!model.adapter || find_adapter(model.adapter->kind).projection == nullptr) return {};
    const AdapterKind& kind = find_adapter(model.adapter->kind);
    std::map<std::pair<std::string_view, std::string_view>, int> parts;  // by layer and name
    for (size_t index = 0; index < model.params.size(); ++index) {
        if (const auto& added = model.params[index].added) parts[{added->layer, added->part}] = static_cast<int>(index);
    }
    std::vector<ProjectedLayer> layers;
    for (const int weight : adapted_layers(model)) {
        const LinearLayer layer = linear_layer(model, weight);
        const AdapterSettings settings = model.adapter->of_layer(layer_of(model.params[at(weight)]));
        const std::vector<AdapterPart> added = kind.parts(layer, settings);
        const LayerProjection of = kind.projection(layer, settings);
        const auto param = [&](size_t part) {
            return parts.at({layer_of(model.params[at(weight)]), added[part].name});
        };
        layers.push_back({.weight = weight,
                          .left = param(of.left),
                          .right = param(of.right),
                          .inner = param(of.inner),
                          .inner_is_turned = of.inner_is_turned,
                          .left_shape = of.left_shape,
                          .right_shape = of.right_shape});
    }
    return layers;
}

std::string_view layer_of(const ParamSpec& weight) {
    std::string_view name = weight.name;
    WINDLASS_CHECK(name.ends_with(kWeight), "{} is not a weight of a layer", name);
    name.remove_suffix(kWeight.size());
    return name;
}

std::string module_name(const ModelSpec& model, std::string_view layer) {
    const std::string name = tree_name(model, fmt::format("{}{}", layer, kWeight));
    return name.substr(0, name.size() - kWeight.size());
}

std::string layer_name(const ModelSpec& model, int layer) {
    const FoundLayer found = find_layer(model, layer);
    return name_in(model, *found.block, found.node->weights[0]);
}

int weight_of_layer(const ModelSpec& model, int layer) {
    const FoundLayer found = find_layer(model, layer);
    return found.block->params[at(found.node->weights[0])];
}

LinearLayer linear_layer(const ModelSpec& model, int layer) {
    const FoundLayer found = find_layer(model, layer);
    return layer_at(*found.block->program, *found.node);
}

}  // namespace windlass
