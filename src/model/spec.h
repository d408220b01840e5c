// spec.h: ModelSpec: what is computed, and nothing about where or how it is trained.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/program.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace windlass {

// The head's table in the programs of every family, whatever name it has in the files.
inline constexpr std::string_view kHeadRole = "lm_head.weight";

// What an added parameter begins with.
enum class FirstValues {
    uniform,    // within `bound` of `mean`, by the run's seed
    signs,      // mean - bound or mean + bound, by the seed
    row_norms,  // the norms of the numbers of each of the layer's outputs, of its weight
    one_hot,    // [vocabulary, tokens]: 1 in the row of each token that the layer trains; in no file
};
struct FirstRule {
    FirstValues kind = FirstValues::uniform;
    double mean = 0, bound = 0;

    bool is_in_files() const { return kind != FirstValues::one_hot; }
};

// What makes a parameter that no model folder has: an adapter's, next to a layer.
struct AddedParam {
    std::string layer;  // the layer: the name of its weight without ".weight"; of a tied table, the name of this end
    std::string part;   // what of the adapter this is, "lora_A"
    FirstRule first = {};
    bool trains = true;      // else it is read only, as the model's own
    bool is_turned = false;  // peft's files hold it transposed
    // Instead of `first`: the parameter of the model whose values it begins with. It takes the place of one end of a
    // tied table, which so gets numbers of its own.
    std::string copy_of = {};
};

struct ParamSpec {
    std::string name;  // as in the model's files
    Shape shape;       // as in the model's files
    DType file_dtype = DType::f32;
    int block = 0;          // home: the first block, in order of the forward pass, that uses it
    int layer = -1;         // the layer that it is at home in, however blocks are cut; -1: embedding or head
    std::string alias;      // the other name of a tied table, where the files hold it under both
    std::string tied_name;  // the other name of a tied table, wherever the files hold it; empty for all others
    std::optional<AddedParam> added = {};  // nothing: the model's own
    bool is_whole = false;                 // the model's own, and trained whole together with an adapter

    int64_t numel() const { return shape.numel(); }
    // With an adapter: it is trained, and a part of the adapter's folder.
    bool learns_with_adapter() const { return added ? added->trains : is_whole; }
};

struct Block {
    std::string name;                        // "embedding", "layers.7", "head"
    std::shared_ptr<const Program> program;  // equal blocks share it
    std::vector<int> params;                 // the program's weights -> ModelSpec::params
};

// A small trained part next to some layers of a model (model/adapters).
struct AdapterSettings {
    std::string kind;           // as in configuration: "lora"
    int64_t rank = 0;           // of a pair of matrices, or columns of a pair of projectors; 0 where the kind has none
    double scale = 1;           // of the adapter's output
    int64_t nonzeros = 0;       // of each row of sparse projectors
    uint64_t seed = 0;          // of the projectors' positions
    bool scales_input = false;  // of trained scales: they multiply the layer's input, not its output
    bool has_magnitudes = false;  // of a pair of matrices: a trained norm of each output's weights (DoRA)

    // Layers that have a rank, a scale or scales of their own, by name (AddedParam::layer).
    struct Layer {
        int64_t rank = 0;
        double scale = 1;
        bool scales_input = false;
        auto operator<=>(const Layer&) const = default;
    };
    std::map<std::string, Layer, std::less<>> layers = {};

    // Parameters of the model that train whole next to the adapter (modules_to_save), by their names in its files; of a
    // tied table, by either. One end of a tied table, or both, get numbers of their own unless `keeps_ties`.
    std::vector<std::string> whole = {};
    bool keeps_ties = false;

    // The tokens whose rows alone are trained, of the table of tokens or the head, by layer (trainable_token_indices).
    // The one name of a tied table means both ends. Such a layer has no other adapter.
    std::map<std::string, std::vector<int64_t>, std::less<>> tokens = {};

    // As one layer has them.
    AdapterSettings of_layer(std::string_view layer) const;
};

struct ModelSpec {
    std::string family;
    int64_t vocab = 0;
    int64_t hidden = 0;
    int64_t context_length = 0;  // positions the model was made for
    // The canonical table: sorted by name, bytewise; after them, sorted too, what an adapter adds.
    std::vector<ParamSpec> params;
    std::vector<Block> blocks;                     // embedding, layers, head with the loss: the forward pass in order
    Block logits;                                  // the head without the loss, for generation
    std::vector<std::string> notes;                // what the user should know: ignored dropout, padded vocabulary, ...
    std::vector<std::string> config_notes;         // those of them on keys of config.json that have no effect
    std::vector<std::string> ignored_config_keys;  // keys of config.json that the user asks to ignore
    // Names of the body's parameters begin so in the files, and so in the tree of transformers' modules.
    std::string file_prefix, tree_prefix;
    std::optional<AdapterSettings> adapter;

    int64_t param_count() const;
};

// The type of all files where they agree, else f32, which holds any of them.
DType files_type(const ModelSpec& model);

// The index in the model of each parameter's first element, by which random numbers are counted: parameters in
// canonical order, each beginning at a multiple of 256, since the counters of 256 are drawn together.
std::vector<int64_t> global_offsets(const ModelSpec& model);

}  // namespace windlass
