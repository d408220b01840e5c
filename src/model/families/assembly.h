// assembly.h: how a family writes a model down: blocks of ops, their parameters under the names that files use.
//
// A BlockWriter writes one block; ModelAssembly collects blocks, lets equal ones share a program, gives every
// parameter its home, and holds the table against the tensors of the folder.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/hf_config.h"
#include "format/model_folder.h"
#include "model/spec.h"
#include "op/ops.h"

namespace windlass {

// What a configuration may ask for at most. Products of two stay below 2^44 and a whole model below 2^62 bytes, so
// that no size computed from a hostile file overflows; real models are orders of magnitude smaller.
inline constexpr int64_t kVocabMax = int64_t{1} << 24;
inline constexpr int64_t kHiddenMax = int64_t{1} << 20;
inline constexpr int64_t kInnerMax = int64_t{1} << 22;
inline constexpr int64_t kLayersMax = 4096;
inline constexpr int64_t kHeadsMax = 4096;
inline constexpr int64_t kHeadSizeMax = 4096;
inline constexpr int64_t kPositionsMax = int64_t{1} << 24;
inline constexpr int64_t kParamsMax = int64_t{1} << 46;

// A parameter as a block asks for it; the table adds the rest.
struct WantedParam {
    std::string name;  // as in the files
    Shape shape;
};

struct LinearSize {
    int64_t in = 0;
    int64_t out = 0;
    bool bias = false;
    bool in_out = false;  // the file holds [in, out]
};

enum class Activation : uint8_t { relu, gelu, gelu_tanh };
// The activation under this key, by the names of transformers; others are refused by name.
Activation read_activation(const HfConfig& config, const char* key, const char* fallback);

// The heads must divide the hidden size, where the configuration gives heads no size of their own.
void require_divisible_heads(const HfConfig& config, int64_t hidden, int64_t heads);

// Writes one block. A role names a weight within the block; its tensor is `prefix` + role. Values are named after
// the module that makes them: "self_attn.q_proj".
class BlockWriter {
  public:
    BlockWriter(std::string name, std::string prefix) : name_(std::move(name)), prefix_(std::move(prefix)) {}

    int input(int64_t cols) { return program_.input("x", cols); }
    int embedding(const std::string& module, WantedParam table, EmbeddingAttrs attrs = {});
    int linear(const std::string& module, int in, LinearSize size);
    int rms_norm(const std::string& module, int in, int64_t size, RmsNormAttrs attrs);
    int layer_norm(const std::string& module, int in, int64_t size, double eps);
    int activation(std::string value, int in, Activation kind);
    int scale(std::string value, int in, ScaleAttrs attrs);  // `in` itself where the factor is 1
    // Ops without weights.
    int apply(const OpRecord& op, std::string value, std::vector<int> in, std::any attrs = {});

    // The end of the head, for its table [vocab, channels]: logits, or the loss of each token.
    int logits(int in, WantedParam table, CrossEntropyAttrs shape);
    int loss(int in, WantedParam table, CrossEntropyAttrs shape);

  private:
    friend class ModelAssembly;
    int weight(std::string role, WantedParam param);
    // A weight under the block's prefix.
    int weight(const std::string& role, Shape shape);

    std::string name_, prefix_;
    ProgramBuilder program_;
    std::vector<WantedParam> params_;  // by the program's weights
};

WantedParam vocab_table(std::string name, int64_t vocab, int64_t cols);
WantedParam position_table(std::string name, int64_t positions, int64_t cols);

// Under which names the files hold the tables of the embedding and of the head.
struct TableNames {
    std::string embedding;
    std::string head;
};

struct ModelSizes {
    int64_t vocab = 0;
    int64_t hidden = 0;
    int64_t context_length = 0;
};

class ModelAssembly {
  public:
    // `tensors`: of the folder, sorted; empty when only the configuration is known.
    ModelAssembly(std::string family, ModelSizes sizes, const HfConfig& config, std::span<const TensorPlace> tensors);

    // The first of `prefixes` under which the files hold `name`; the first of them, which is the prefix in the tree of
    // transformers' modules, where none does.
    std::string find_prefix(std::span<const std::string_view> prefixes, std::string_view name);
    // The first of these names that the files hold; the first of all if they hold none.
    std::string find_first(std::span<const std::string_view> names) const;
    // Two names, or twice the same one: of a tied table, that under which the files hold it (the embedding's, when
    // they hold it under both).
    TableNames name_tables(const std::string& embedding, const std::string& head, bool tied);
    // Tensors that end so are no parameters: buffers that older versions of transformers wrote.
    void ignore(std::string_view suffix) { ignored_.emplace_back(suffix); }
    // Tensors that begin so belong to a part of the model that text does not pass. Saving copies them.
    void ignore_prefix(std::string_view prefix) { ignored_prefixes_.emplace_back(prefix); }

    void add_block(BlockWriter block, int output);
    // The last block and its twin without the loss: `body` takes the residual stream to what the table multiplies,
    // `shape` says what becomes of the products.
    void add_head(const std::string& prefix, const WantedParam& table, const std::function<int(BlockWriter&)>& body,
                  CrossEntropyAttrs shape = {});
    ModelSpec finish();

  private:
    Block make_block(BlockWriter block, int output);
    int add_param(const WantedParam& wanted);
    void assign_homes();
    void sort_params();
    void bind_tensors();
    bool is_ignored(std::string_view name) const;
    const TensorPlace* find(std::string_view name) const;

    const HfConfig& config_;
    std::span<const TensorPlace> tensors_;
    ModelSpec model_;
    // By their text, which several may share.
    std::map<std::string, std::vector<std::shared_ptr<const Program>>> programs_;
    std::map<std::string, int> param_of_;          // by name
    std::map<std::string, std::string> tied_to_;   // by either name of a tied table
    std::map<std::string, std::string> alias_of_;  // by name
    std::vector<std::string> ignored_;
    std::vector<std::string> ignored_prefixes_;
};

}  // namespace windlass
