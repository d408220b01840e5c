// model_fixtures.h: small configurations and model folders for the tests of this floor.
#pragma once

#include <regex>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "format/model_folder.h"
#include "format/model_folder_writer.h"
#include "model/adapters/peft.h"
#include "model/adapters/tokens.h"
#include "model/families.h"
#include "model/load.h"
#include "op/ops.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {

inline std::string golden_folder(const std::string& name) {
    return fmt::format("{}/tests/golden/{}/model", source_dir(), name);
}
inline std::string data_folder(const std::string& name) {
    return shared_data(name);
}

inline const std::vector<std::string>& golden_names() {
    static const std::vector<std::string> names = {
        "gpt2",    "gpt2_variant", "opt",       "opt_post_norm",  "llama",       "llama_biases", "llama_linear",
        "llama3",  "llama_yarn",   "qwen2",     "mistral_window", "qwen3",       "smollm3",      "olmo2",
        "granite", "phi3",         "phi4_mini", "gemma2",         "gemma3_text", "gemma3"};
    return names;
}

// Cases of tests/golden/peft.
inline std::string peft_golden_folder(const std::string& name) {
    return fmt::format("{}/tests/golden/peft/{}", source_dir(), name);
}
inline const std::vector<std::string>& peft_golden_names() {
    static const std::vector<std::string> names = {"gpt2",
                                                   "gpt2_bare",
                                                   "opt",
                                                   "opt_post_norm",
                                                   "llama",
                                                   "llama_rslora",
                                                   "llama3_regex",
                                                   "llama_biases_full",
                                                   "llama_linear_layer",
                                                   "mistral_window",
                                                   "qwen2",
                                                   "qwen3",
                                                   "qwen3_bf16",
                                                   "ia3",
                                                   "ia3_feedforward",
                                                   "ia3_conv1d",
                                                   "llama_ranks",
                                                   "llama_whole",
                                                   "qwen2_whole_head",
                                                   "qwen2_whole_table",
                                                   "qwen2_whole_ends",
                                                   "qwen2_whole_tied",
                                                   "ia3_whole",
                                                   "llama_tables",
                                                   "gemma2_tables",
                                                   "granite_head",
                                                   "gpt2_table",
                                                   "dora",
                                                   "dora_conv1d",
                                                   "dora_ranks",
                                                   "llama_tokens",
                                                   "qwen2_tokens",
                                                   "tokens"};
    return names;
}

// peft has rows of tokens where ours are differences from the base's rows.
inline std::vector<float> less_own_rows(const ModelFolder& base, const ModelSpec& model, const ParamSpec& param,
                                        std::vector<float> theirs) {
    if (!is_token_rows(model, param)) return theirs;
    const std::vector<float> own =
        own_rows(model, param, 0, std::ssize(theirs), [&](int index, int64_t first, std::span<float> out) {
            load_elements(base, model.params[static_cast<size_t>(index)], first, out);
        });
    for (size_t i = 0; i < theirs.size(); ++i) theirs[i] -= own[i];
    return theirs;
}

// Numbers of an added parameter in the order of ours, not of peft's files.
inline std::vector<float> in_our_order(const ParamSpec& param, const std::vector<float>& theirs) {
    if (!param.added || !param.added->is_turned) return theirs;
    std::vector<float> ours;
    for (int64_t row = 0; row < param.shape[0]; ++row)
        for (int64_t col = 0; col < param.shape[1]; ++col)
            ours.push_back(theirs[static_cast<size_t>(col * param.shape[0] + row)]);
    return ours;
}

// What adapter_config.json says, for each module of this model.
inline AdapterSettings peft_settings(const AdapterFolder& folder, const ModelSpec& model) {
    PeftConfig config = read_peft_config(folder);
    const FitsModule fits = [](const std::string& pattern, bool is_whole, const std::string& module) {
        return std::regex_match(module, std::regex(is_whole ? pattern : "(.*\\.)?(" + pattern + ")"));
    };
    read_peft_tokens(folder, model, fits, config);
    read_by_module(folder, model, fits, config.settings);
    read_peft_whole(folder, model, config);
    return config.settings;
}

inline ModelSpec build_text(const std::string& text) {
    HfConfig config = HfConfig::parse(text, "config.json");
    return build_model(config, {});
}

inline ModelSpec build_folder(const ModelFolder& folder) {
    HfConfig config = folder.config();
    return build_model(config, folder.tensors());
}

// The configuration of a golden model, or that with some keys changed or added; null removes a key.
std::string golden_config(const std::string& name);
std::string golden_config(const std::string& name, const Json& changes);

inline std::vector<const Node*> nodes_of(const ModelSpec& model, const OpRecord& op) {
    std::vector<const Node*> found;
    for (const Block& block : model.blocks) {
        for (const Node& node : block.program->nodes) {
            if (node.op == &op) found.push_back(&node);
        }
    }
    return found;
}

// By layer.
inline std::vector<int64_t> windows_of(const ModelSpec& model) {
    std::vector<int64_t> windows;
    for (const Node* node : nodes_of(model, kAttention)) windows.push_back(node->spec.get<AttentionAttrs>().window);
    return windows;
}

struct TestTensor {
    TensorSpec spec;
    std::vector<std::byte> bytes;
};

inline TestTensor f32_tensor(const std::string& name, Shape shape, float start = 0.0f) {
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = start + 0.001f * static_cast<float>(i);
    const auto bytes = std::as_bytes(std::span(values));
    return {{name, DType::f32, shape}, {bytes.begin(), bytes.end()}};
}

inline std::vector<TestTensor> read_tensors(const ModelFolder& folder) {
    std::vector<TestTensor> tensors;
    for (const TensorPlace& place : folder.tensors()) {
        TestTensor tensor{{place.name, *place.dtype, place.shape},
                          std::vector<std::byte>(static_cast<size_t>(place.bytes))};
        folder.read(place, 0, tensor.bytes);
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

inline void write_folder(const std::string& path, const std::string& config, const std::vector<TestTensor>& tensors) {
    ModelFolderContent content{.config_text = config};
    for (const TestTensor& tensor : tensors) content.tensors.push_back(tensor.spec);
    content.shards = split_by_size(content.tensors);
    ModelFolderWriter writer(real_files(), path, std::move(content));
    for (const TestTensor& tensor : tensors) writer.write(tensor.spec.name, 0, tensor.bytes);
    writer.finish();
}

// The tensors of a model of this configuration, each filled with its own slope.
inline std::vector<TestTensor> tensors_of(const std::string& config) {
    std::vector<TestTensor> tensors;
    for (const ParamSpec& param : build_text(config).params)
        tensors.push_back(f32_tensor(param.name, param.shape, 0.1f * static_cast<float>(tensors.size())));
    return tensors;
}

template <typename Call>
std::string complaint(Call&& call) {
    try {
        call();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::model) << error.what();
        return error.what();
    }
    return "";
}

}  // namespace windlass
