// families.h: from a Hugging Face config (and the tensors its folder holds) to a ModelSpec.
//
// A family is one file in families/ and one line in families/all.cpp. It reads its configuration keys through
// HfConfig, which remembers which were read: a key that changes the maths and was not read stops the load.
#pragma once

#include <span>
#include <string_view>

#include "format/hf_config.h"
#include "format/model_folder.h"
#include "model/spec.h"

namespace windlass {

struct GgufModel;

struct Family {
    std::string_view model_type;
    // `tensors`: what the folder holds, sorted by name; empty when only the configuration is known (planning), and
    // then the names are those that transformers would write and file_dtype is the configuration's.
    // Missing, extra or misshapen tensors throw UserError(model) with the name, got and want.
    ModelSpec (*build)(HfConfig& config, std::span<const TensorPlace> tensors);
    // The same model as llama.cpp has it. UserError(model) for a variant that it computes otherwise; nullptr: it does
    // not know the family.
    GgufModel (*gguf)(const HfConfig& config, const ModelSpec& model) = nullptr;
};

std::span<const Family* const> all_families();
// nullptr: there is none of this type.
const Family* find_family(std::string_view model_type);

// Finds the family by model_type, builds, and has the configuration checked for unread keys.
ModelSpec build_model(HfConfig& config, std::span<const TensorPlace> tensors);

}  // namespace windlass
