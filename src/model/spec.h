// spec.h: ModelSpec: what is computed, and nothing about where or how it is trained.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/program.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace windlass {

// How a parameter is kept while Windlass works on it: `split` fp32 masters as two 16-bit halves (trained), or numbers
// of the files' type (forward-only methods).
enum class StoreType : uint8_t { split, as_file };

// Forward-only methods: when what a run changes is rounded into the numbers that are kept. Until then those are read
// only, and what is computed with is their difference to the sum of the run's updates, which is made again from
// numbers that the run has anyway (method/noise/README.md).
enum class Folding : uint8_t { each_step, each_window, never };
// "each_step", "each_window", "never": as in configuration.
std::string_view folding_name(Folding folding);
std::optional<Folding> folding_from_name(std::string_view name);

struct ParamSpec {
    std::string name;  // as in the model's files
    Shape shape;       // as in the model's files
    DType file_dtype = DType::f32;
    StoreType store = StoreType::split;
    DType store_dtype = DType::bf16;  // of the weights that are kept; of a split master, of its high half
    int scale_exponent = 0;           // f8_e4m3: weights are the numbers that are kept, times 2^scale_exponent
    bool trainable = true;
    bool decay = true;                   // weight decay applies: matrices and tables, not norms and biases
    double learning_rate_scale = 1;      // of the run's learning rate
    std::optional<double> weight_decay;  // of its own; nothing: the run's, where `decay` says so
    int block = 0;                       // home: the first block, in order of the forward sweep, that uses it
    int layer = -1;  // the layer that it is at home in, however blocks are cut; -1: embedding or head
    Folding folding = Folding::each_step;
    // Forward-only methods neither move nor probe larger ones.
    float magnitude_limit = std::numeric_limits<float>::infinity();
    std::string alias;      // the other name of a tied table, where the files hold it under both
    std::string tied_name;  // the other name of a tied table, wherever the files hold it; empty for all others

    int64_t numel() const { return shape.numel(); }
    // What is computed with may be other than what is kept.
    bool keeps_sum() const { return trainable && folding != Folding::each_step; }
};

// How some of the parameters are trained (param_groups.h).
struct ParamGroup {
    std::string match;  // glob over names
    bool train = true;
    double learning_rate_scale = 1;      // of the run's learning rate
    std::optional<double> weight_decay;  // of all that it matches; nothing: the run's, of matrices and tables
    bool operator==(const ParamGroup&) const = default;
};

struct Block {
    std::string name;                        // "embedding", "layers.7", "head"
    std::shared_ptr<const Program> program;  // shared by equal blocks that train the same of their parameters
    std::vector<int> params;                 // the program's weights -> ModelSpec::params
};

struct ModelSpec {
    std::string family;
    int64_t vocab = 0;
    int64_t hidden = 0;
    int64_t context_length = 0;                    // positions the model was made for
    std::vector<ParamSpec> params;                 // the canonical table: sorted by name, bytewise
    std::vector<Block> blocks;                     // embedding, layers, head with the loss: the forward sweep in order
    Block logits;                                  // the head without the loss, for generation
    std::vector<ParamGroup> groups;                // that were applied to the parameters, in order
    std::vector<std::string> notes;                // what the user should know: ignored dropout, padded vocabulary, ...
    std::vector<std::string> config_notes;         // those of them on keys of config.json that have no effect
    std::vector<std::string> ignored_config_keys;  // keys of config.json that the user wants left out

    int64_t param_count() const;
    // Products with weights: parameters without tables that are only looked up ("mat" of the benchmarks).
    int64_t matmul_param_count() const;
    // 6 N + attention (causal half counted), per token of a row of this length, for a whole training step.
    double training_flops_per_token(int64_t row_length) const;
};

// Parameters are kept so. as_file: the type of all files where they agree, else f32, which holds any of them.
void set_store(ModelSpec& model, StoreType store);
// What set_store(as_file) keeps parameters in.
DType files_type(const ModelSpec& model);

// Of parameters that are kept as_file: matrices and tables become f8_e4m3, vectors stay as they are. Scales are set
// from the base's weights (method/noise/magnitude_limits.h), or by set_scale_exponents.
void keep_in_8_bits(ModelSpec& model);
bool is_kept_in_8_bits(const ModelSpec& model);
// By parameter, 0 for those that have none. UserError(storage, where) where these are not this model's.
std::vector<int> scale_exponents(const ModelSpec& model);
void set_scale_exponents(std::span<const int> exponents, std::string_view where, ModelSpec& model);

// Of parameters that are kept as_file: the matrices of layers become nf4 (tensor/nf4.h); tables, the head and vectors
// stay as they are. They are only read: what is kept is what the base's were rounded to.
void keep_in_4_bits(ModelSpec& model);
bool is_kept_in_4_bits(const ModelSpec& model);

// each_window: of all parameters; never: of matrices and tables, vectors are folded at each step.
void set_folding(ModelSpec& model, Folding folding);

// The index in the model of each parameter's first element, by which random numbers are counted: parameters in
// canonical order, each beginning at a multiple of 256, since the counters of so many are drawn together.
std::vector<int64_t> element_starts(const ModelSpec& model);

}  // namespace windlass
