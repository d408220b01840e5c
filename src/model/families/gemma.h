// gemma.h: what Gemma 2 and Gemma 3 share: norms before and after each half of a layer, which multiply by 1 + w, a
// gate of gelu, scores scaled by a number of their own, and an embedding multiplied by the root of its width.
#pragma once

#include "model/families/gguf_decoder.h"

namespace windlass {

// Of configurations that do not mention these sizes. Attention to both sides is refused.
DecoderSpec read_gemma(const HfConfig& config, DecoderDefaults defaults);

// "layer_types"; else every `pattern`-th layer sees all that is before it, and the others a window of that.
std::vector<int64_t> read_gemma_windows(const HfConfig& config, size_t layers, int64_t pattern);

// 0: null, or not mentioned where nothing else is the rule.
double read_softcap(const HfConfig& config, const char* key, double fallback);

// Gemma 3's decoder, by its own configuration: the whole of a text model, a section of one that sees.
DecoderSpec read_gemma3(const HfConfig& config);

// What both have in a GGUF file. llama.cpp scales scores by the size of a head, but in a model of `layers_of_largest`
// layers by the hidden size's share of one: UserError(model) where the configuration says another number.
GgufModel gguf_gemma(std::string architecture, const DecoderSpec& spec, const HfConfig& config, const ModelSpec& model,
                     const GgufRope& rope, int64_t layers_of_largest);

// Of the decoder that read_gemma3 reads.
GgufModel gguf_gemma3(const HfConfig& config, const ModelSpec& model);

}  // namespace windlass
