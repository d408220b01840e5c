// preference_attrs.h: how pairs of answers are judged (ops.h, preference).
#pragma once

#include <cstdint>

namespace windlass {

struct PreferenceAttrs {
    enum class Kind : uint8_t { dpo, orpo } kind = Kind::dpo;
    double beta = 0.1;
    bool with_prompt = false;  // orpo: its first term is over the preferred answer's prompt as well (Batch::answers)
    bool operator==(const PreferenceAttrs&) const = default;
};

}  // namespace windlass
