// decoder.h: the decoder that Llama and its kin share: RMSNorm, rotary positions, grouped-query attention, SwiGLU. It
// is described layer by layer. A family reads the common keys, sets what is its own in some layers or in all, and
// builds.
//
//   h = x + o(attention(rope(q(n1)), rope(k(n1)), v(n1)))        n1 = rms_norm(x)
//   y = h + down(silu(gate(n2)) * up(n2))                        n2 = rms_norm(h)
#pragma once

#include "model/families/assembly.h"
#include "model/families/rotary.h"

namespace windlass {

// Where a layer's halves, f, have their norms: f(norm(x)), norm(f(x)) or norm(f(norm(x))); x is added after that.
enum class NormOrder : uint8_t { before, after, around };
// Norms of q and k, before rope: none, of each head by itself, or of all heads as one.
enum class QkNorm : uint8_t { none, per_head, whole };

struct LayerSpec {
    int64_t hidden = 0, inner = 0;
    int64_t heads = 0, key_heads = 0, head_size = 0;
    double norm_eps = 1e-6;
    bool unit_offset = false;  // norms multiply by 1 + w
    NormOrder norms = NormOrder::before;
    QkNorm qk_norm = QkNorm::none;
    std::shared_ptr<const RopeTable> rope;  // null: positions do not show
    int64_t window = 0;                     // 0: none
    double score_scale = 0;                 // of products of queries and keys
    double score_softcap = 0;               // 0: none
    double residual_scale = 1;              // of each half's contribution to the residual stream
    bool fused = false;                     // q, k and v are one matrix, and so are gate and up
    bool qkv_bias = false;
    bool output_bias = false;  // of the attention's output projection
    bool mlp_bias = false;
    SwigluAttrs::Kind gate = SwigluAttrs::Kind::silu;
};

struct DecoderSpec {
    int64_t vocab = 0, hidden = 0, context_length = 0;
    ScaleAttrs embedding_scale;
    CrossEntropyAttrs head;    // how logits are scaled and capped
    double norm_eps = 1e-6;    // of the last norm
    bool unit_offset = false;  // likewise
    bool tied = false;
    std::vector<LayerSpec> layers;

    void set_windows(const std::vector<int64_t>& windows);  // by layer
};

// What a file means that does not mention a key, by transformers' configuration class; 0: the key must be there, or
// follows from others as in Llama.
struct DecoderDefaults {
    int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, positions = 0;
    int64_t heads = 0, key_heads = 0, head_size = 0;
    double norm_eps = 1e-6;
    bool tied = false;
    RopeRules rope = {};
    SwigluAttrs::Kind gate = SwigluAttrs::Kind::silu;
};

// Sizes, norm, rope and whether the table is tied; layers that are all alike (with the first rope that the family has),
// without biases and windows.
DecoderSpec read_decoder(const HfConfig& config, const DecoderDefaults& defaults = {});

// The window of each layer: where "layer_types" is given it decides which layers slide; else those from `first_sliding`
// on do. `window` 0: none may.
std::vector<int64_t> read_windows(const HfConfig& config, size_t layers, int64_t window, int64_t first_sliding);

// "sliding_window" as transformers takes it: null is none, and a file that does not mention it means `fallback`.
int64_t read_sliding_window(const HfConfig& config, int64_t fallback);

// Qwen's rule: use_sliding_window switches the window on, for the layers from max_window_layers on.
std::vector<int64_t> read_qwen_windows(const HfConfig& config, size_t layers);

// Under which names files hold a decoder.
struct DecoderNames {
    std::span<const std::string_view> prefixes, heads;  // the first that is there, else the first
    std::span<const std::string_view> apart;            // prefixes of tensors that text does not use
};
inline constexpr std::string_view kDecoderPrefixes[] = {"model.", ""};  // with a head, and a bare decoder's
inline constexpr std::string_view kDecoderHeads[] = {"lm_head.weight"};

ModelSpec build_decoder(std::string family, const DecoderSpec& spec, const HfConfig& config,
                        std::span<const TensorPlace> tensors,
                        const DecoderNames& names = {kDecoderPrefixes, kDecoderHeads, {}});

}  // namespace windlass
