#include "model/preference_head.h"

namespace windlass {

ModelSpec judge_pairs(ModelSpec model, const PreferenceAttrs& attrs) {
    Block& head = model.blocks.back();
    ProgramBuilder builder(*head.program);
    const int losses = builder.apply(kPreference, "pair_losses", {head.program->outputs[0]}, {}, attrs);
    head.program = std::make_shared<const Program>(builder.finish({losses}));
    return model;
}

}  // namespace windlass
