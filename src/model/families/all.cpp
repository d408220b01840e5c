#include "model/families/all.h"

namespace windlass {

std::span<const Family* const> all_families() {
    static constexpr const Family* kAll[] = {&kGemma2, &kGemma3, &kGemma3Text, &kGpt2,  &kGranite, &kLlama,  &kMistral,
                                             &kOlmo2,  &kOpt,    &kPhi3,       &kQwen2, &kQwen3,   &kSmollm3};
    return kAll;
}

}  // namespace windlass
