// phi3.cpp: Phi-3, 3.5, 4 and 4-mini: Llama's block with q, k and v in one matrix and gate and up in another. Models of
// long contexts have two tables of rope (longrope), 4-mini turns a part of each head.
#include "model/families/all.h"
#include "model/families/gguf_decoder.h"

namespace windlass {
namespace phi3_family {

// Keys of Phi-4-mini's own code for which only one value is implemented, as in transformers.
void require_one(const HfConfig& config, const char* key) {
    const int64_t value = config.find_integer(key, 0, kPositionsMax).value_or(1);
    if (value != 1) throw UserError(ExitCode::model, config.where(), "\"{}\" is {}: only 1 is implemented", key, value);
}

DecoderSpec read(const HfConfig& config) {
    DecoderSpec spec = read_decoder(config, {.norm_eps = 1e-5, .rope = {.dialect = RopeDialect::phi}});
    const int64_t window = read_sliding_window(config, 0);
    for (LayerSpec& layer : spec.layers) {
        layer.fused = true;
        layer.window = window;
    }
    require_one(config, "full_attn_mod");
    require_one(config, "interpolate_factor");
    return spec;
}

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("phi3", read(config), config, tensors);
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    const DecoderSpec spec = read(config);
    require_whole_heads(spec, config.where());
    GgufModel out = gguf_decoder("phi3", spec, config, model, {kGgufMatrices, kGgufFused}, {.factors = true});
    // 0 says that there is none; files without the key are taken for older ones.
    out.fields.push_back({"phi3.attention.sliding_window", static_cast<uint32_t>(spec.layers.front().window)});
    note_windows(spec, out);
    return out;
}

}  // namespace phi3_family

const Family kPhi3 = {"phi3", phi3_family::build, phi3_family::gguf};

}  // namespace windlass
