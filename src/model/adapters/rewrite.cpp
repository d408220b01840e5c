#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "model/adapters/visit_layers.h"
#include "model/adapters/whole.h"

namespace windlass {
namespace {

// What a program gets besides its own weights: a part of the adapter of one of them.
struct AddedWeight {
    int beside = 0;  // the program's weight whose layer it changes
    AdapterPart part;
};

struct Rewritten {
    std::shared_ptr<const Program> program;
    std::vector<AddedWeight> added;  // after the program's own weights, in order
};

// How a layer is adapted.
struct OwnAdapter {
    const AdapterKind* kind = nullptr;
    AdapterSettings::Layer layer;
    auto operator<=>(const OwnAdapter&) const = default;
};

// By a program's weights; nothing for those that are not adapted.
using LayerSettings = std::vector<std::optional<OwnAdapter>>;

// Writes a program again, with an adapter after some of its layers. What neighbouring layers of one input add
// is after all of them, so that they stay neighbours (OpRecord::joins).
class ProgramRewriter {
  public:
    ProgramRewriter(const Program& whole, const AdapterSettings& settings)
        : whole_(whole), settings_(settings), value_(whole.values.size()) {}

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
            const bool is_before = is_adapted && adapted[at(node.weights[0])]->layer.scales_input;
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
        OwnAdapter adapter;
    };

    void copy(const Node& node, std::optional<int> input) {
        std::vector<int> in = node.in;
        for (int& value : in) value = value_[at(value)];
        if (input) in[0] = *input;
        const int out = node.out[0];
        value_[at(out)] =
            made_.apply(*node.op, whole_.values[at(out)].name, std::move(in), node.weights, node.spec.attrs);
    }

    AdapterSettings settings_with(const OwnAdapter& own) const {
        AdapterSettings settings = settings_.of_layer("");
        settings.rank = own.layer.rank, settings.scale = own.layer.scale,
        settings.scales_input = own.layer.scales_input;
        return settings;
    }

    // The place of an adapter, with its parts.
    AdapterPlace place_at(const Node& node, const AdapterKind& kind, const AdapterSettings& settings) {
        AdapterPlace place{.layer = layer_at(whole_, node), .parts = {}, .weight = node.weights[0]};
        if (!node.in.empty()) place.in = value_[at(node.in[0])];
        if (node.weights.size() > 1) place.bias = node.weights[1];
        for (AdapterPart& part : kind.parts(place.layer, settings)) {
            place.parts.push_back(made_.weight(fmt::format("{}.{}", place.layer.role, part.name), part.shape));
            added_.push_back({node.weights[0], std::move(part)});
        }
        return place;
    }

    int write_input(const Node& node, const OwnAdapter& own) {
        return own.kind->write_input(made_, place_at(node, *own.kind, settings_with(own)));
    }

    // The loss has the head's product inside it, and takes the adapter's as a second one.
    void write_loss(const Node& node, const OwnAdapter& own) {
        const AdapterSettings settings = settings_with(own);
        const AdapterPlace place = place_at(node, *own.kind, settings);
        const int narrow = own.kind->write_narrow(made_, place, settings), out = node.out[0];
        value_[at(out)] = made_.apply(kCrossEntropy, whole_.values[at(out)].name, {place.in, narrow},
                                      {node.weights[0], place.parts.back()}, node.spec.attrs);
    }

    void write_waiting() {
        for (const auto& [node, own] : waiting_) {
            const AdapterSettings settings = settings_with(own);
            AdapterPlace place = place_at(*node, *own.kind, settings);
            int& out = value_[at(node->out[0])];
            place.out = out;
            out = own.kind->write(made_, place, settings);
        }
        waiting_.clear();
    }

    const Program& whole_;
    const AdapterSettings& settings_;
    ProgramBuilder made_;
    std::vector<int> value_;  // from a value of the whole program to its value in the new one
    std::vector<Waiting> waiting_;
    std::vector<AddedWeight> added_;
};

class ModelRewriter {
  public:
    ModelRewriter(ModelSpec model, const AdapterSettings& settings, std::span<const int> layers)
        : model_(std::move(model)), settings_(settings), adapted_(layers.begin(), layers.end()) {
        for_layers(model_, [&](const Block& block, const Node& node, int layer) {
            const std::string name = parts_layer(block, node.weights[0]);
            if (!adapted_.contains(layer) && !settings_.tokens.contains(name)) return;
            const AdapterSettings own = settings_.of_layer(name);
            own_[{&block, node.weights[0]}] = {&kind_of_layer(settings_, name),
                                               {own.rank, own.scale, own.scales_input}};
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
    // The name of the layer that has the adapter's parts: of a tied table whose tokens train, one for both ends.
    std::string parts_layer(const Block& block, int weight) const {
        const std::string name = name_in(model_, block, weight);
        const ParamSpec& param = model_.params[at(block.params[at(weight)])];
        if (param.tied_name.empty() || settings_.tokens.contains(name)) return name;
        for (const std::string& end : {param.name, param.tied_name}) {
            std::string other = end.substr(0, end.rfind('.'));
            if (settings_.tokens.contains(other)) return other;
        }
        return name;
    }

    std::vector<std::string> rewrite(Block& block) {
        LayerSettings adapted(block.params.size());
        for (size_t weight = 0; weight < adapted.size(); ++weight) {
            const auto own = own_.find({&block, static_cast<int>(weight)});
            if (own != own_.end()) adapted[weight] = own->second;
        }
        const auto [known, is_new] = programs_.try_emplace({block.program, adapted});
        if (is_new) known->second = ProgramRewriter(*block.program, settings_).write(adapted);
        std::vector<std::string> names;
        for (const AddedWeight& each : known->second.added) {
            const ParamSpec& beside = model_.params[at(block.params[at(each.beside)])];
            const std::string layer = parts_layer(block, each.beside);
            names.push_back(fmt::format("{}.{}", layer, each.part.name));
            const AdapterPart& part = each.part;
            added_.try_emplace(names.back(), ParamSpec{.name = names.back(),
                                                       .shape = part.shape,
                                                       .file_dtype = part.dtype,
                                                       .layer = beside.layer,
                                                       .added = AddedParam{.layer = layer,
                                                                           .part = part.name,
                                                                           .first = part.first,
                                                                           .trains = part.trains,
                                                                           .is_turned = part.is_turned}});
        }
        block.program = known->second.program;
        return names;
    }

    ModelSpec model_;
    const AdapterSettings& settings_;
    std::set<int> adapted_;  // layers
    // By the weights of blocks: how each adapted layer is.
    std::map<std::pair<const Block*, int>, OwnAdapter> own_;
    // The old programs are kept, so that no new one has the address of one of them.
    std::map<std::pair<std::shared_ptr<const Program>, LayerSettings>, Rewritten> programs_;
    std::map<std::string, ParamSpec> added_;  // by name
};

}  // namespace

ModelSpec with_adapter(ModelSpec model, const AdapterSettings& settings, std::span<const int> layers) {
    WINDLASS_CHECK(!model.adapter, "the model has an adapter already");
    return ModelRewriter(std::move(model), settings, layers).write();
}

}  // namespace windlass
