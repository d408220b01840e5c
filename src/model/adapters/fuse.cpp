#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "model/adapters/peft.h"
#include "model/adapters/row_norms.h"
#include "model/adapters/tokens.h"

namespace windlass {
namespace {

// An adapted layer, and its adapter's parts in the order of the kind.
struct Adapted {
    const AdapterKind* kind;
    int weight;
    LinearLayer layer;
    AdapterSettings settings;
    std::vector<int> parts;
};

class Fusing {
  public:
    Fusing(const ModelSpec& model, const ReadMasters& masters, ReadMasters computed)
        : model_(model), masters_(masters), computed_(std::move(computed)) {
        std::map<std::string_view, int> index;
        for (size_t i = 0; i < model.params.size(); ++i) index[model.params[i].name] = static_cast<int>(i);
        for (const int each : adapted_layers(model)) {
            const std::string layer = layer_name(model, each);
            Adapted adapted{&kind_of_layer(*model.adapter, layer),
                            weight_of_layer(model, each),
                            linear_layer(model, each),
                            model.adapter->of_layer(layer),
                            {}};
            for (const AdapterPart& part : adapted.kind->parts(adapted.layer, adapted.settings))
                adapted.parts.push_back(index.at(fmt::format("{}.{}", layer, part.name)));
            adapted_.push_back(std::move(adapted));
            weights_[weight_of_layer(model, each)] = adapted_.size() - 1;
            if (const auto bias = index.find(layer + ".bias"); bias != index.end())
                biases_[bias->second] = adapted_.size() - 1;
        }
    }

    void read(int param, int64_t first, std::span<float> out) {
        masters_(param, first, out);
        const auto weight = weights_.find(param), bias = biases_.find(param);
        const bool is_bias = bias != biases_.end();
        if (weight == weights_.end() && !is_bias) return;
        const size_t index = is_bias ? bias->second : weight->second;
        if (loaded_ != static_cast<int64_t>(index)) load(index);
        adapted_[index].kind->fuse(adapted_[index].layer, adapted_[index].settings, parts_, {is_bias, first, out});
        if (is_bias || slopes_.empty()) return;
        for (size_t i = 0; i < out.size(); ++i)
            out[i] *= slopes_[at(output_of(adapted_[index].layer, first + static_cast<int64_t>(i)))];
    }

  private:
    void load(size_t index) {
        parts_.clear();
        for (const int part : adapted_[index].parts) {
            std::vector<float>& numbers = parts_.emplace_back(at(model_.params[at(part)].numel()));
            masters_(part, 0, numbers);
            const ParamSpec& spec = model_.params[at(part)];
            if (is_token_rows(model_, spec)) add_own_rows(model_, spec, 0, numbers, computed_);
        }
        loaded_ = static_cast<int64_t>(index);
        slopes_.clear();
        const Adapted& adapted = adapted_[index];
        if (adapted.kind->magnitudes == nullptr) return;
        if (const auto part = adapted.kind->magnitudes(adapted.settings)) load_slopes(adapted, parts_[*part]);
    }

    // What each output's numbers are multiplied by, so that their norm is its magnitude; 0 where they are zeros.
    void load_slopes(const Adapted& adapted, const std::vector<float>& magnitudes) {
        const std::vector<double> norms =
            row_norms(adapted.layer, 0, adapted.layer.out_cols, [&](int64_t first, std::span<float> out) {
                masters_(adapted.weight, first, out);
                adapted.kind->fuse(adapted.layer, adapted.settings, parts_, {.first = first, .numbers = out});
            });
        for (size_t i = 0; i < norms.size(); ++i)
            slopes_.push_back(norms[i] > 0 ? static_cast<float>(magnitudes[i] / norms[i]) : 0.0f);
    }

    const ModelSpec& model_;
    const ReadMasters& masters_;
    ReadMasters computed_;
    std::vector<Adapted> adapted_;
    std::map<int, size_t> weights_, biases_;  // by parameter: its layer in adapted_
    std::vector<std::vector<float>> parts_;   // of one layer
    std::vector<float> slopes_;               // of its outputs; empty: of a kind without magnitudes
    int64_t loaded_ = -1;
};

}  // namespace

std::vector<uint8_t> without_adapter(const ModelSpec& model) {
    std::set<std::string> adapted;
    for (const int layer : adapted_layers(model)) {
        adapted.insert(model.params[at(weight_of_layer(model, layer))].name);
        adapted.insert(layer_name(model, layer) + ".bias");
    }
    std::vector<uint8_t> without;
    for (const ParamSpec& param : model.params)
        without.push_back(param.added || param.is_whole || adapted.contains(param.name) ? 0 : 1);
    return without;
}

void require_fusable(const ModelSpec& model) {
    for (const int layer : adapted_layers(model)) {
        const ParamSpec& weight = model.params[at(weight_of_layer(model, layer))];
        if (weight.tied_name.empty() || model.adapter->tokens.contains(layer_name(model, layer))) continue;
        throw UserError(ExitCode::usage, "--merged",
                        "the adapter changes {}, one end of a tied table, by itself: merged, there would be two tables",
                        module_name(model, layer_name(model, layer)))
            .hint("windlass export without --merged, and the adapter next to its base");
    }
}

ReadMasters fused_masters(const ModelSpec& model, const ReadMasters& masters, const ReadMasters& computed) {
    return [fusing = std::make_shared<Fusing>(model, masters, computed ? computed : masters)](
               int param, int64_t first, std::span<float> out) { fusing->read(param, first, out); };
}

}  // namespace windlass
