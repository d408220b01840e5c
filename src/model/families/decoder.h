// decoder.h: the decoder that Llama, Mistral and Qwen share: RMSNorm before, rotary positions, grouped-query
// attention, SwiGLU. A family reads the common keys, sets what is its own, and builds.
//
//   h = x + o(attention(rope(q(n1)), rope(k(n1)), v(n1)))        n1 = rms_norm(x)
//   y = h + down(silu(gate(n2)) * up(n2))                        n2 = rms_norm(h)
#pragma once

#include "model/families/assembly.h"

namespace windlass {

struct DecoderSpec {
    int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, context_length = 0;
    int64_t heads = 0, key_heads = 0, head_size = 0;
    double norm_eps = 1e-6;
    std::vector<double> frequencies;  // [head_size / 2], radians a position
    bool tied = false;

    // What families differ in.
    bool qkv_bias = false;
    bool output_bias = false;  // of the attention's output projection
    bool mlp_bias = false;
    bool qk_norm = false;          // each head of q and k has its norm, before rope
    std::vector<int64_t> windows;  // by layer, 0 for none
};

// Sizes, norm, rope and whether the table is tied; neither biases nor windows.
DecoderSpec read_decoder(const HfConfig& config);

// The window of each layer: where "layer_types" is given it decides which layers slide; else those from `first_sliding`
// on do. `window` 0: none may.
std::vector<int64_t> read_windows(const HfConfig& config, int64_t layers, int64_t window, int64_t first_sliding);

// "sliding_window" as transformers takes it: null is none, and a file that does not mention it means `fallback`.
int64_t read_sliding_window(const HfConfig& config, int64_t fallback);

// Qwen's rule: use_sliding_window switches the window on, for the layers from max_window_layers on.
std::vector<int64_t> read_qwen_windows(const HfConfig& config, int64_t layers);

// Frequencies of the pairs of a head, scaling applied. Default and linear: Su et al. 2021, section 3.4.2, and
// Chen et al. 2023 (position interpolation); llama3 as in transformers' modeling_rope_utils.
std::vector<double> rope_frequencies(const RopeSpec& rope, int64_t head_size);

ModelSpec build_decoder(std::string family, const DecoderSpec& spec, const HfConfig& config,
                        std::span<const TensorPlace> tensors);

}  // namespace windlass
