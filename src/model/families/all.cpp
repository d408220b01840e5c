#include "model/families/all.h"

namespace windlass {

std::span<const Family* const> all_families() {
    static constexpr const Family* kAll[] = {&kGpt2, &kLlama, &kMistral, &kOpt, &kQwen2, &kQwen3};
    return kAll;
}

}  // namespace windlass
