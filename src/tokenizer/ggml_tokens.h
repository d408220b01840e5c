// ggml_tokens.h: a tokenizer as llama.cpp keeps one: a table of tokens, and how texts become them
// (docs/format/gguf.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace windlass {

// By llama.cpp's numbers.
enum class GgmlTokenType : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct GgmlTokens {
    std::string model;  // "gpt2": BPE over bytes; "llama": BPE over characters, as SentencePiece makes it
    std::string cut;    // how texts are cut before (ggml_tokens.cpp)
    // One entry for each id.
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    std::vector<float> scores;        // of "llama": the highest merges first
    std::vector<std::string> merges;  // of "gpt2": "left right", in order
    std::optional<int32_t> bos, eos, eot, unk, pad;
    bool adds_bos = false, adds_eos = false;  // around a text
    bool adds_space = false;                  // in front of a text
    bool strips_as_phi3 = false;              // ggml_model_name
    std::vector<std::string> notes;           // where llama.cpp reads some texts otherwise
};

// A name for a model with these tokens. In models whose name (general.name) says that they are Phi-3, special tokens
// take white space after them along in llama.cpp; where these tokens do so, the name begins with it, and where they do
// not, it must not say it.
std::string ggml_model_name(std::string_view name, const GgmlTokens& tokens);

// A table of `rows` entries, the model's; those that no token has are unused. UserError(model) naming `where` and the
// part of the tokenizer that llama.cpp does not have.
GgmlTokens ggml_tokens(const Tokenizer& tokenizer, int64_t rows, std::string_view where);

}  // namespace windlass
