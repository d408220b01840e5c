// save.h: a trained model as a Hugging Face folder: what the base holds, with the trained values.
//
// Names, shapes, dtypes and files are the base's; tensors that are no parameters, side files and config.json are
// copied byte for byte. The folder appears whole or not at all. Buffers stay below kSaveBufferBytes, whatever the
// model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "format/gguf.h"
#include "model/spec.h"

namespace windlass {

inline constexpr int64_t kSaveBufferBytes = int64_t{16} << 20;

// One file for llama.cpp in place of a folder (model/gguf.h).
struct GgufOutput {
    std::optional<GgufType> type;   // of matrices; nothing: as the base's files have, f32 where they differ
    std::vector<GgufField> fields;  // its name and its tokenizer
};

struct SaveOptions {
    std::optional<DType> dtype;              // f32, bf16 or f16 for every parameter; nothing: as in the base
    std::optional<int64_t> shard_bytes_max;  // nothing: split as the base, or by the usual size when the dtype changes
    bool overwrite = false;                  // replace a target that is a model folder and nothing else
    std::vector<std::string> never_replaced = {};  // folders that the target may not be, besides the base
    // By parameter, whether it is the base's still: its tensors are copied byte for byte, or converted to `dtype` from
    // the base's numbers, and its masters are not asked for. Empty: none is.
    std::vector<uint8_t> unchanged = {};
    std::string chat_template = {};       // text of one that is written instead of the base's; empty: the base's
    std::string generation_config = {};   // the same
    std::string card = {};                // the same, of README.md; a GGUF file has none
    std::optional<GgufOutput> gguf = {};  // then neither dtype nor shard_bytes_max
    // The model has a head of its own where the base's files tie it to the embedding: one tensor more, and config.json
    // says so.
    bool unties = false;
};

// Puts the masters of elements [first, first + out.size()) of a parameter (an index into ModelSpec::params) into out.
using ReadMasters = std::function<void(int param, int64_t first, std::span<float> out)>;

// What an adapter has added is no part of the folder. Asks for the masters of one parameter after the other, each from
// its first element on; a tied table that the base holds under two names is asked for twice. A master whose value the
// dtype cannot hold (f16 overflow) is UserError(model), naming the tensor.
void save_model(FileSystem& files, const std::string& base_folder, const std::string& target, const ModelSpec& model,
                const SaveOptions& options, const ReadMasters& masters);

// config.json with this dtype, under the key it uses, and not a byte changed elsewhere.
std::string config_with_dtype(const std::string& text, DType dtype, const std::string& where);
// config.json of the same model with a head of its own.
std::string config_untied(const std::string& text, const std::string& where);
// config.json without these keys; the same bytes where there are none.
std::string config_without(const std::string& text, std::span<const std::string> keys, const std::string& where);

}  // namespace windlass
