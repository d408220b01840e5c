// gguf_decoder.h: what a family says of itself for a GGUF file: tables of names, and the fields that decoders share.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "model/families/decoder.h"
#include "model/gguf.h"

namespace windlass {

// One tensor of a layer, or of the model, without its prefix: "self_attn.q_proj.weight" is "attn_q.weight" there.
struct GgufName {
    std::string_view from, to;
    GgufChange change = GgufChange::none;
    bool is_of_keys = false;  // `neighbours` goes by key heads
    bool keeps_f32 = false;
};
using GgufNames = std::span<const GgufName>;

// Where a model has its tensors, beside the head, "lm_head.weight".
struct GgufTables {
    std::string_view layers = "layers.";  // of a layer's prefix, behind the model's: "layers.7."
    GgufNames layer, model;
};

// The names of all parameters. UserError(model) naming one that the tables lack.
std::vector<GgufSource> gguf_tensors(const ModelSpec& model, const GgufTables& tables, int64_t heads,
                                     int64_t key_heads);

// Sizes, norm and rope as decoder.h's block has them, under the architecture's prefix; rope_freqs.weight where rope is
// stretched as Llama 3's.
GgufModel gguf_decoder(std::string architecture, const DecoderSpec& spec, const HfConfig& config,
                       const ModelSpec& model, std::initializer_list<GgufNames> layer_names);

// For architectures that llama.cpp computes without windows.
void note_windows(const DecoderSpec& spec, GgufModel& out);

// Tables of decoder.h's block: its matrices and norms, and what some families have beside them.
extern const GgufNames kGgufMatrices;     // with q and k as they are
extern const GgufNames kGgufNeighbours;   // with q and k changed
extern const GgufNames kGgufQkvBiases;    // q and k as they are
extern const GgufNames kGgufLlamaBiases;  // of all matrices, q and k changed
extern const GgufNames kGgufQkNorms;

}  // namespace windlass
