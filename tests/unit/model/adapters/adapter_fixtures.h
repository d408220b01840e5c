// adapter_fixtures.h: models of the goldens with adapters beside them, and adapters' folders made by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "base/json.h"
#include "model/adapters/adapter.h"
#include "model/adapters/first_weights.h"
#include "model/adapters/peft.h"
#include "model/adapters/tokens.h"
#include "tests/unit/model/golden_numbers.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/model/model_runner.h"

namespace windlass {

inline ParamValues read_all(const ModelSpec& model, const ReadMasters& masters) {
    ParamValues values;
    for (size_t param = 0; param < model.params.size(); ++param) {
        values.emplace_back(at(model.params[param].numel()));
        masters(static_cast<int>(param), 0, values.back());
    }
    return values;
}

// What hands these numbers over; `values` outlives it.
inline ReadMasters masters_of(const ParamValues& values) {
    return [&values](int param, int64_t first, std::span<float> out) {
        std::copy_n(values[at(param)].begin() + first, out.size(), out.begin());
    };
}

// Settings that no default has, for each kind.
inline AdapterSettings small_settings(const AdapterKind& kind, bool has_magnitudes = false) {
    AdapterSettings settings{
        .kind = std::string(kind.name), .rank = 4, .scale = 1.75, .has_magnitudes = has_magnitudes};
    if (kind.rank_is_capped) settings.rank = 24, settings.scale = 1, settings.nonzeros = 3, settings.seed = 11;
    return settings;
}

// The adapter's numbers as they may be after some training: none is 0, and no two parameters are equal.
inline void spread_added(const ModelSpec& model, ParamValues& values) {
    for (size_t param = 0; param < values.size(); ++param) {
        const auto& added = model.params[param].added;
        if (!added || added->first.kind == FirstValues::one_hot) continue;
        const auto mean = static_cast<float>(added->first.mean);
        for (size_t i = 0; i < values[param].size(); ++i)
            values[param][i] = mean + 0.2f * std::sin(0.7f * static_cast<float>(i) + static_cast<float>(param) + 0.3f);
    }
}

// The model of a golden, its weights by transformers' names.
struct GoldenBase {
    explicit GoldenBase(const std::string& name) : GoldenBase(name, golden_folder(name)) {}
    GoldenBase(const std::string& name, const std::string& path)
        : folder(ModelFolder::open(real_files(), path)),
          model(build_folder(folder)),
          numbers(SafetensorsReader::open(real_files(), golden_folder(name) + "/../golden.safetensors")) {}

    ModelSpec with(const AdapterSettings& settings) const {
        const bool has_layers = !find_adapter(settings.kind).is_of_tokens;
        return with_adapter(model, settings, has_layers ? linear_layers_of_layers(model) : std::vector<int>());
    }
    TokenBatch batch() const {
        const auto ids = read_numbers<int64_t>(numbers, "ids"), targets = read_numbers<int64_t>(numbers, "targets");
        return TokenBatch::make(2, ids, targets, std::vector<int64_t>{0, static_cast<int64_t>(ids.size()) / 2});
    }

    ModelFolder folder;
    ModelSpec model;
    SafetensorsReader numbers;
};

// The same on a base, of kinds for tokens: some that its batch has, of the table and of the head.
inline AdapterSettings small_settings(const GoldenBase& base, const AdapterKind& kind, bool everywhere) {
    AdapterSettings settings = small_settings(kind);
    if (!kind.is_of_tokens) return settings;
    const auto ids = read_numbers<int64_t>(base.numbers, "ids");
    std::vector<int64_t> tokens = {ids[5]};
    for (const int64_t id : ids) {
        if (tokens.size() < 3 && std::ranges::find(tokens, id) == tokens.end()) tokens.push_back(id);
    }
    std::vector<ModuleTokens> said = {{"", tokens}};
    if (everywhere) said.push_back({"lm_head", tokens});
    settings.tokens = tokens_by_layer(base.model, said, ExitCode::usage, "test");
    return settings;
}

// The layer of this model whose module transformers calls so.
inline int weight_of_module(const ModelSpec& model, std::string_view module) {
    for (const int layer : adaptable_layers(model, find_adapter("lora"))) {
        if (module_name(model, layer_name(model, layer)) == module) return layer;
    }
    ADD_FAILURE() << "no module " << module;
    return -1;
}

inline void write_adapter(const std::string& folder, const std::string& config,
                          const std::vector<TestTensor>& tensors) {
    ModelFolderContent content{.config_text = config, .config_name = kAdapterConfigName};
    for (const TestTensor& tensor : tensors) content.tensors.push_back(tensor.spec);
    content.shards.files = {kAdapterWeightsName};
    content.shards.file_of.assign(tensors.size(), 0);
    ModelFolderWriter writer(real_files(), folder, std::move(content));
    for (const TestTensor& tensor : tensors) writer.write(tensor.spec.name, 0, tensor.bytes);
    writer.finish();
}

}  // namespace windlass
