// gemma3_text.cpp: Gemma 3, the models of text alone: norms of q and k, five layers of six slide with a rope of their
// own.
#include "model/families/all.h"
#include "model/families/gemma.h"

namespace windlass {
namespace gemma3_text_family {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    return build_decoder("gemma3_text", read_gemma3(config), config, tensors);
}

}  // namespace gemma3_text_family

const Family kGemma3Text = {"gemma3_text", gemma3_text_family::build, gguf_gemma3};

}  // namespace windlass
