// gguf.h: a model as llama.cpp needs it in a GGUF file: the name of its architecture, its sizes, its tensors by their
// names there. A family says it (families/gguf_decoder.h); save_gguf writes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/gguf.h"
#include "model/save.h"
#include "model/spec.h"

namespace windlass {

// What becomes of a parameter's numbers.
enum class GgufChange : uint8_t {
    none,
    transposed,  // [in, out] becomes [out, in]
    plus_one,    // a norm that multiplies by 1 + w
    // Rows of q or k: rope turns pairs of neighbours there, where files of Hugging Face pair a head's first half with
    // its second.
    neighbours,
};

struct GgufSource {
    std::string name;  // in the file
    int param = -1;    // index into ModelSpec::params; -1: `values`
    GgufChange change = GgufChange::none;
    int64_t heads = 0;          // of `neighbours`
    bool keeps_f32 = false;     // as vectors do, whatever the file's type
    std::vector<float> values;  // a vector that the model's files have no parameter for
};

struct GgufModel {
    std::string architecture;
    std::vector<GgufField> fields;  // without what every model has: name, types, tokenizer
    std::vector<GgufSource> tensors;
    std::vector<std::string> notes;  // where llama.cpp computes something else
};

// UserError(model): llama.cpp does not compute this model. The way out is a folder.
[[noreturn]] void refuse_gguf(std::string_view where, const std::string& what);

// UserError(model) where the family does not say how its models look there.
void require_gguf(const ModelSpec& model);

// As save_model, into one file. Numbers of vectors are f32, those of matrices `options.gguf`'s type; of q8_0, a matrix
// whose rows are no whole blocks is f16. Buffers are a few times what pieces have (save.h), one head's rows or one
// transposed matrix, the largest of them. UserError(model) where llama.cpp has no such architecture, or computes
// another model than this one.
void save_gguf(FileSystem& files, const std::string& base_folder, const std::string& target, const ModelSpec& model,
               const SaveOptions& options, const ReadMasters& masters);

}  // namespace windlass
