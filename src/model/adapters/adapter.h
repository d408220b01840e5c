// adapter.h: small trained parts next to the layers of a model, as a rewrite of it: ModelSpec to ModelSpec.
//
// What an adapter adds are parameters and ordinary ops, so passes, methods, placements and plans take them as they take
// the model's own. The added parameters are after those in the table: no counter of random numbers shifts. A kind of
// adapter is one file, and one line in all.cpp (docs/dev/add-an-adapter.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "model/program.h"
#include "model/spec.h"
#include "op/sparse_positions.h"

namespace windlass {

// A linear layer, out = in W^T + b, as an adapter sees it; or the table of tokens, whose `in` has a column for each id,
// 1 at the token's.
struct LinearLayer {
    int64_t in_cols = 0;    // of `in`
    int64_t out_cols = 0;   // of `out`
    bool in_out = false;    // W is stored [in, out]
    std::string role = {};  // within the block: "self_attn.q_proj"
    bool is_table = false;
};

// Which layer of a model: the place of its weight among the parameters. The head's is this, since the table of tokens
// may be its weight, too.
inline constexpr int kHeadLayer = -1;

// A parameter that a kind adds to one layer.
struct AdapterPart {
    std::string name;  // after the layer's name, in the table of parameters and, but for its ending, in peft's files
    Shape shape;
    Shape peft_shape;  // in peft's files
    FirstRule first = {};
    bool trains = true;
    bool is_turned = false;    // peft_shape is `shape` transposed, and so are the numbers in peft's files
    DType dtype = DType::f32;  // that holds all values that it may have
};

// Where a kind writes what is after a layer.
struct AdapterPlace {
    LinearLayer layer;
    int in = 0, out = 0;  // values of the builder: the layer's input, which a table lacks, and its output, for `write`
    std::vector<int> parts;  // weights of the builder, in the order of AdapterKind::parts
    int weight = 0;          // the layer's own, of the builder
    std::optional<int> bias = {};
};

// A run of one of the layer's own parameters, to which what was learnt is added: elements [first, first + size) of W,
// or of b.
struct FuseRun {
    bool is_bias = false;
    int64_t first = 0;
    std::span<float> numbers;
};

// What a kind adds to W, as W is stored: left inner right^T, with sparse left and right. All three are parts of the
// kind, `inner` perhaps transposed.
struct LayerProjection {
    size_t left = 0, right = 0, inner = 0;  // of the parts
    bool inner_is_turned = false;
    SparseShape left_shape, right_shape;
};

struct AdapterKind {
    std::string_view name;       // "lora", as in configuration
    std::string_view peft_type;  // "LORA"
    std::vector<AdapterPart> (*parts)(const LinearLayer& layer, const AdapterSettings& settings) = nullptr;
    // Writes the ops after a layer; returns the value that takes the place of its output.
    int (*write)(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) = nullptr;
    // Of a kind that is also for the table of tokens and the head: writes the ops up to what the last part, [out, r],
    // multiplies, and returns that value. The head's loss multiplies it itself (cross_entropy, ops.h). Null: the kind
    // is for linear layers alone.
    int (*write_narrow)(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& settings) = nullptr;
    // Of a kind that changes a layer's input (AdapterSettings::scales_input): returns the value that takes its place,
    // and `write` is not called.
    int (*write_input)(ProgramBuilder& program, const AdapterPlace& place) = nullptr;
    // parts: all numbers of each part. Of a kind with magnitudes: before each output's numbers get their norm.
    void (*fuse)(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts,
                 const FuseRun& run) = nullptr;
    // The part that holds the norms of each output's weights, which these get once `fuse` has added to them. Null,
    // nothing: none.
    std::optional<size_t> (*magnitudes)(const AdapterSettings& settings) = nullptr;
    // What peft's adapter_config.json says of the kind alone, and for all layers. Reading throws UserError(model,
    // where), naming the field, for what would change the mathematics and is not there.
    void (*write_config)(const AdapterSettings& settings, Json& config) = nullptr;
    AdapterSettings (*read_config)(const Json& config, std::string_view where) = nullptr;
    // Null: the kind adds no such product.
    LayerProjection (*projection)(const LinearLayer& layer, const AdapterSettings& settings) = nullptr;
    // Fields of that file that say for some modules what another field says for all: the first has values by patterns
    // of names ({"q_proj": 16}), or names alone, for which the other is true.
    struct ByModule {
        const char *field, *of;
    };
    std::span<const ByModule> by_module = {};
    std::string_view fields;         // of that file that it reads, parted by spaces: others are no concern of this kind
    bool rank_is_capped = false;     // a rank above a side of a layer is lowered to that side; else it is refused
    bool tunes_whole_model = false;  // its users want the model: a run ends with that, and no adapter's folder
    bool is_of_tokens = false;       // for the layers of AdapterSettings::tokens alone
};

// The list (all.cpp).
std::span<const AdapterKind* const> all_adapters();
// UserError(usage) naming those that there are.
const AdapterKind& find_adapter(std::string_view name);

// The kind of the adapter that a layer has.
const AdapterKind& kind_of_layer(const AdapterSettings& settings, std::string_view layer);

// The linear layers of the whole model but its head, in order.
std::vector<int> linear_layers(const ModelSpec& model);
// Those of its layers alone: what an adapter has unless it is told otherwise.
std::vector<int> linear_layers_of_layers(const ModelSpec& model);

// All layers that an adapter of this kind may be next to: linear layers, and of kinds that say so (write_narrow) the
// table of tokens and kHeadLayer, in order; of kinds for tokens these alone.
std::vector<int> adaptable_layers(const ModelSpec& model, const AdapterKind& kind);

// Whether one of them may have an adapter with these settings: magnitudes are for linear layers other than the head.
bool may_adapt(const ModelSpec& model, int layer, const AdapterSettings& settings);

// Those that have one.
std::vector<int> adapted_layers(const ModelSpec& model);

// The layers to which the model's adapter adds such a product: parameters of the model.
struct ProjectedLayer {
    int weight = 0, left = 0, right = 0, inner = 0;
    bool inner_is_turned = false;
    SparseShape left_shape, right_shape;
};
std::vector<ProjectedLayer> projected_layers(const ModelSpec& model);

// The name that transformers has for a layer, "model.layers.0.self_attn.q_proj" or "lm_head", by AddedParam::layer.
std::string module_name(const ModelSpec& model, std::string_view layer);
// "a.b.weight" -> "a.b"
std::string_view layer_of(const ParamSpec& weight);
// The name of a layer (AddedParam::layer), and the place of its weight.
std::string layer_name(const ModelSpec& model, int layer);
int weight_of_layer(const ModelSpec& model, int layer);
// What the program says of this layer.
LinearLayer linear_layer(const ModelSpec& model, int layer);

// The model with an adapter next to these layers and those of settings.tokens. Its own parameters keep their places.
ModelSpec with_adapter(ModelSpec model, const AdapterSettings& settings, std::span<const int> layers);

}  // namespace windlass
