// gemma3.cpp: Gemma 3, the models that see as well: the decoder of its text, which a section of the configuration
// describes. What it sees with is neither run nor trained.
#include "model/families/all.h"
#include "model/families/gemma.h"

namespace windlass {
namespace gemma3_family {

ModelSpec build(HfConfig& config, std::span<const TensorPlace> tensors) {
    const HfConfig text = config.section("text_config");
    DecoderSpec spec = read_gemma3(text);
    if (spec.head.softcap > 0)  // transformers leaves it out of these models
        throw UserError(ExitCode::model, text.where(), "\"final_logit_softcapping\" is not null: not implemented");
    if (spec.tied != config.flag("tie_word_embeddings", spec.tied))
        throw UserError(ExitCode::model, config.where(), "\"tie_word_embeddings\" contradicts that of \"text_config\"");
    static constexpr std::string_view kPrefixes[] = {"model.language_model.", "language_model.model."};
    static constexpr std::string_view kHeads[] = {"lm_head.weight", "language_model.lm_head.weight"};
    static constexpr std::string_view kApart[] = {"model.vision_tower.", "model.multi_modal_projector.",
                                                  "vision_tower.", "multi_modal_projector."};
    return build_decoder("gemma3", spec, config, tensors, {kPrefixes, kHeads, kApart});
}

GgufModel gguf(const HfConfig& config, const ModelSpec& model) {
    GgufModel out = gguf_gemma3(config.section("text_config"), model);
    out.notes.emplace_back("what the model sees with is not in the file: llama.cpp has a second file for that");
    return out;
}

}  // namespace gemma3_family

const Family kGemma3 = {"gemma3", gemma3_family::build, gemma3_family::gguf};

}  // namespace windlass
