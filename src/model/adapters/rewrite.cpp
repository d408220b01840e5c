#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "model/adapters/adapter.h"
#include "model/adapters/whole.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr std::string_view kWeight = ".weight";

LinearLayer layer_at(const Program& program, const Node& node) {
    const auto& [role, weight] = program.weights[at(node.weights[0])];
    const std::string name = role.substr(0, role.size() - kWeight.size());
    if (node.op == &kEmbedding) return {weight[0], weight[1], true, name, true};
    if (node.op == &kCrossEntropy) return {weight[1], weight[0], false, name};
    return {node.spec.in[0].cols, node.spec.out[0].cols, node.spec.get<LinearAttrs>().in_out, name};
}

// Whether an adapter may be next to what this node computes.
bool is_layer(const Node& node) {
    if (node.op == &kEmbedding) return node.spec.get<EmbeddingAttrs>().index == EmbeddingAttrs::Index::token;
    return node.op == &kLinear || node.op == &kCrossEntropy;
}

// Calls body(block, node, layer) for each layer of the model's own; for the head twice, with its loss and without.
template <typename Body>
void for_layers(const ModelSpec& model, Body body) {
    const auto visit = [&](const Block& block) {
        for (const Node& node : block.program->nodes) {
            if (!is_layer(node)) continue;
            const int weight = node.weights[0], param = block.params[at(weight)];
            if (model.params[at(param)].added) continue;
            body(block, node, block.program->weights[at(weight)].role == kHeadRole ? kHeadLayer : param);
        }
    };
    std::ranges::for_each(model.blocks, visit);
    visit(model.logits);
}

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

// A layer's name, by its weight in a block. A tied table has two names.
std::string name_in(const ModelSpec& model, const Block& block, int weight) {
    const ParamSpec& param = model.params[at(block.params[at(weight)])];
    if (param.tied_name.empty() || param.name.ends_with(block.program->weights[at(weight)].role))
        return std::string(layer_of(param));
    return param.tied_name.substr(0, param.tied_name.size() - kWeight.size());
}

void sort_once(std::vector<int>& layers) {
    std::ranges::sort(layers);
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
}

// What a program gets besides its own weights: a part of the adapter of one of them.
struct AddedWeight {
    int beside = 0;  // the program's weight whose layer it changes
    AdapterPart part;
};

struct Rewritten {
    std::shared_ptr<const Program> program;
    std::vector<AddedWeight> added;  // after the program's own weights, in order
};

// How each of a program's weights is adapted; nothing for those that are not.
using LayerSettings = std::vector<std::optional<AdapterSettings::Layer>>;

// Writes a program again, with an adapter after some of its layers. What neighbouring layers of one input add
// is after all of them, so that they stay neighbours (OpRecord::joins).
class ProgramRewriter {
  public:
    ProgramRewriter(const Program& whole, const AdapterKind& kind, const AdapterSettings& settings)
        : whole_(whole), kind_(kind), settings_(settings), value_(whole.values.size()) {}

    // adapted: by the program's weights.
    Rewritten write(const LayerSettings& adapted) {
        for (const int input : whole_.inputs)
            value_[at(input)] = made_.input(whole_.values[at(input)].name, whole_.values[at(input)].spec.cols);
        for (const ProgramWeight& weight : whole_.weights) made_.weight(weight.role, weight.shape);
        for (const Node& node : whole_.nodes) {
            if (!waiting_.empty() && (node.op != &kLinear || node.in != waiting_.front().node->in)) write_waiting();
            const bool is_adapted = is_layer(node) && adapted[at(node.weights[0])].has_value();
            if (is_adapted && node.op == &kCrossEntropy) {
                write_loss(node, *adapted[at(node.weights[0])]);
                continue;
            }
            const bool is_before = is_adapted && adapted[at(node.weights[0])]->scales_input;
            copy(node, is_before ? std::optional(write_input(node, *adapted[at(node.weights[0])])) : std::nullopt);
            if (is_adapted && !is_before) waiting_.push_back({&node, *adapted[at(node.weights[0])]});
        }
        write_waiting();
        std::vector<int> outputs = whole_.outputs;
        for (int& output : outputs) output = value_[at(output)];
        return {std::make_shared<const Program>(made_.finish(std::move(outputs))), std::move(added_)};
    }

  private:
    struct Waiting {
        const Node* node;
        AdapterSettings::Layer layer;
    };

    void copy(const Node& node, std::optional<int> input) {
        std::vector<int> in = node.in;
        for (int& value : in) value = value_[at(value)];
        if (input) in[0] = *input;
        const int out = node.out[0];
        value_[at(out)] =
            made_.apply(*node.op, whole_.values[at(out)].name, std::move(in), node.weights, node.spec.attrs);
    }

    AdapterSettings settings_with(const AdapterSettings::Layer& own) const {
        AdapterSettings settings = settings_.of_layer("");
        settings.rank = own.rank, settings.scale = own.scale, settings.scales_input = own.scales_input;
        return settings;
    }

    // The place of an adapter, with its parts.
    AdapterPlace place_at(const Node& node, const AdapterSettings& settings) {
        AdapterPlace place{.layer = layer_at(whole_, node), .parts = {}, .weight = node.weights[0]};
        if (!node.in.empty()) place.in = value_[at(node.in[0])];
        if (node.weights.size() > 1) place.bias = node.weights[1];
        for (AdapterPart& part : kind_.parts(place.layer, settings)) {
            place.parts.push_back(made_.weight(fmt::format("{}.{}", place.layer.role, part.name), part.shape));
            added_.push_back({node.weights[0], std::move(part)});
        }
        return place;
    }

    int write_input(const Node& node, const AdapterSettings::Layer& own) {
        return kind_.write_input(made_, place_at(node, settings_with(own)));
    }

    // The loss has the head's product inside it, and takes the adapter's as a second one.
    void write_loss(const Node& node, const AdapterSettings::Layer& own) {
        const AdapterSettings settings = settings_with(own);
        const AdapterPlace place = place_at(node, settings);
        const int narrow = kind_.write_narrow(made_, place, settings), out = node.out[0];
        value_[at(out)] = made_.apply(kCrossEntropy, whole_.values[at(out)].name, {place.in, narrow},
                                      {node.weights[0], place.parts.back()}, node.spec.attrs);
    }

    void write_waiting() {
        for (const auto& [node, own] : waiting_) {
            const AdapterSettings settings = settings_with(own);
            AdapterPlace place = place_at(*node, settings);
            int& out = value_[at(node->out[0])];
            place.out = out;
            out = kind_.write(made_, place, settings);
        }
        waiting_.clear();
    }

    const Program& whole_;
    const AdapterKind& kind_;
    const AdapterSettings& settings_;
    ProgramBuilder made_;
    std::vector<int> value_;  // from a value of the whole program to its value in the new one
    std::vector<Waiting> waiting_;
    std::vector<AddedWeight> added_;
};

class ModelRewriter {
  public:
    ModelRewriter(ModelSpec model, const AdapterSettings& settings, std::span<const int> layers)
        : model_(std::move(model)),
          settings_(settings),
          kind_(find_adapter(settings.kind)),
          adapted_(layers.begin(), layers.end()) {
        for_layers(model_, [&](const Block& block, const Node& node, int layer) {
            if (!adapted_.contains(layer)) return;
            const AdapterSettings own = settings_.of_layer(name_in(model_, block, node.weights[0]));
            own_[{&block, node.weights[0]}] = {own.rank, own.scale, own.scales_input};
        });
    }

    ModelSpec write() {
        const size_t own = model_.params.size();
        std::vector<std::vector<std::string>> names;  // by block: of the parameters that it gets
        for (Block& block : model_.blocks) names.push_back(rewrite(block));
        names.push_back(rewrite(model_.logits));
        const std::vector<TableCopy> copies = mark_whole(model_, settings_);
        for (const TableCopy& copy : copies) added_[copy.param.name] = copy.param;
        std::map<std::string, int> index;
        for (auto& [name, param] : added_) {  // bytewise, as the table is sorted
            index[name] = static_cast<int>(model_.params.size());
            model_.params.push_back(std::move(param));
        }
        for (size_t block = names.size(); block-- > 0;) {  // the first block that uses it is its home
            const bool is_last = block == model_.blocks.size();
            for (const std::string& name : names[block]) {
                const int param = index.at(name);
                (is_last ? model_.logits : model_.blocks[block]).params.push_back(param);
                if (!is_last) model_.params[at(param)].block = static_cast<int>(block);
            }
        }
        for (const TableCopy& copy : copies) place_copy(model_, copy, index.at(copy.param.name));
        WINDLASS_CHECK(model_.params.size() > own, "an adapter of no layer");
        model_.adapter = settings_;
        return std::move(model_);
    }

  private:
    std::vector<std::string> rewrite(Block& block) {
        LayerSettings adapted(block.params.size());
        for (size_t weight = 0; weight < adapted.size(); ++weight) {
            const auto own = own_.find({&block, static_cast<int>(weight)});
            if (own != own_.end()) adapted[weight] = own->second;
        }
        const auto [known, is_new] = programs_.try_emplace({block.program, adapted});
        if (is_new) known->second = ProgramRewriter(*block.program, kind_, settings_).write(adapted);
        std::vector<std::string> names;
        for (const AddedWeight& each : known->second.added) {
            const ParamSpec& beside = model_.params[at(block.params[at(each.beside)])];
            const std::string layer = name_in(model_, block, each.beside);
            names.push_back(fmt::format("{}.{}", layer, each.part.name));
            const AdapterPart& part = each.part;
            added_.try_emplace(names.back(), ParamSpec{.name = names.back(),
                                                       .shape = part.shape,
                                                       .file_dtype = part.dtype,
                                                       .layer = beside.layer,
                                                       .added = AddedParam{.layer = layer,
                                                                           .part = part.name,
                                                                           .first_mean = part.first_mean,
                                                                           .first_bound = part.first_bound,
                                                                           .is_signed = part.is_signed,
                                                                           .is_row_norm = part.is_row_norm,
                                                                           .trains = part.trains,
                                                                           .is_turned = part.is_turned}});
        }
        block.program = known->second.program;
        return names;
    }

    ModelSpec model_;
    const AdapterSettings& settings_;
    const AdapterKind& kind_;
    std::set<int> adapted_;  // layers
    // By the weights of blocks: how each adapted layer is.
    std::map<std::pair<const Block*, int>, AdapterSettings::Layer> own_;
    // The old programs are kept, so that no new one has the address of one of them.
    std::map<std::pair<std::shared_ptr<const Program>, LayerSettings>, Rewritten> programs_;
    std::map<std::string, ParamSpec> added_;  // by name
};

}  // namespace

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
    for_layers(model, [&](const Block&, const Node&, int layer) { layers.push_back(layer); });
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

ModelSpec with_adapter(ModelSpec model, const AdapterSettings& settings, std::span<const int> layers) {
    WINDLASS_CHECK(!model.adapter, "the model has an adapter already");
    return ModelRewriter(std::move(model), settings, layers).write();
}

}  // namespace windlass
