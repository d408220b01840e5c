// hf_config_keys.h: what is known about keys of config.json that no family reads.
#pragma once

#include <string_view>

namespace windlass {

enum class KeyMeaning {
    unknown,       // may change the mathematics
    neutral,       // never touches the forward pass: token ids, generation defaults, heads of other tasks
    dropout,       // a probability; applied only when asked for
    off_by_false,  // changes the mathematics unless its value is false, 0, "" or empty
    off_by_true,   // ... unless true
    off_by_one,    // ... unless 1
};

KeyMeaning meaning_of(std::string_view key);

}  // namespace windlass
