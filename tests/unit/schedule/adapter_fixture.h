// adapter_fixture.h: models with an adapter beside all linear layers, kept as a run over files of bf16 keeps them.
#pragma once

#include "model/adapters/adapter.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {

inline TrainedModel with_adapter_of(const std::string& config_text, const AdapterSettings& settings, bool in_4_bits) {
    HfConfig config = HfConfig::parse(config_text, "config.json");
    ModelSpec spec = build_model(config, {});
    for (ParamSpec& param : spec.params) param.file_dtype = DType::bf16;
    const std::vector<int> layers = linear_layers_of_layers(spec);
    TrainedModel model(with_adapter(std::move(spec), settings, layers));
    set_store(model, StoreType::split);
    keep_frozen_as(model, DType::bf16);
    if (in_4_bits) keep_in_4_bits(model);
    return model;
}
inline TrainedModel with_lora(const std::string& config_text, int64_t rank, bool in_4_bits = false) {
    return with_adapter_of(config_text, {.kind = "lora", .rank = rank, .scale = 2}, in_4_bits);
}

}  // namespace windlass
