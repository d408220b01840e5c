// gguf_decoder.h: what a family says of itself for a GGUF file: tables of names, and the fields that decoders share.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "model/families/decoder.h"
#include "model/families/gguf_rope.h"
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

// Where a model has its tensors, besides the head, "lm_head.weight".
struct GgufTables {
    std::string_view layers = "layers.";  // of a layer's prefix, after the model's: "layers.7."
    GgufNames layer, model;
};

// The names of all parameters. UserError(model) naming one that the tables lack.
std::vector<GgufSource> gguf_tensors(const ModelSpec& model, const GgufTables& tables, int64_t heads,
                                     int64_t key_heads);

// Sizes, norms and rope as decoder.h's block has them, under the architecture's prefix. UserError(model) where the
// architecture lacks a tensor or the rope.
GgufModel gguf_decoder(std::string architecture, const DecoderSpec& spec, const HfConfig& config,
                       const ModelSpec& model, std::initializer_list<GgufNames> layer_names, const GgufRope& rope = {});

void add_gguf_number(const char* key, double value, GgufModel& out);  // under the architecture's prefix

// Windows of one size in all layers but every `step`-th, which is compiled into llama.cpp; others are a
// UserError(model).
void add_gguf_windows(const DecoderSpec& spec, int64_t step, std::string_view where, GgufModel& out);

// For architectures whose heads are the hidden size together. UserError(model) where they are not.
void require_whole_heads(const DecoderSpec& spec, std::string_view where);

// For architectures that llama.cpp computes without windows.
void note_windows(const DecoderSpec& spec, GgufModel& out);

// Tables of decoder.h's block: its matrices and norms, and what some families have besides them.
extern const GgufNames kGgufMatrices;     // with q and k as they are
extern const GgufNames kGgufNeighbours;   // with q and k changed
extern const GgufNames kGgufQkvBiases;    // q and k as they are
extern const GgufNames kGgufLlamaBiases;  // of all matrices, q and k changed
extern const GgufNames kGgufQkNorms;
extern const GgufNames kGgufNormsBehind;  // of halves that have a norm after them
extern const GgufNames kGgufFused;        // q, k and v in one, gate and up in one

}  // namespace windlass
