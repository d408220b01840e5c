// olmo2.cpp: OLMo 2: the halves of a layer have their norms behind them instead of before, and q and k have norms over
// all heads as one.
#include "model/families/all.h"
#include "model/families/decoder.h"

namespace windlass {
namespace {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    DecoderSpec spec = read_decoder(config, {.norm_eps = 1e-5});
    for (LayerSpec& layer : spec.layers) {
        layer.norms = NormOrder::after;
        layer.qk_norm = QkNorm::whole;
        layer.qkv_bias = layer.output_bias = config.flag("attention_bias", false);
    }
    return build_decoder("olmo2", spec, config, tensors);
}

}  // namespace

const Family kOlmo2 = {"olmo2", build};

}  // namespace windlass
