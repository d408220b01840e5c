// hf_config_keys.h: what is known about keys of config.json that no family reads.
#pragma once

#include <span>
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

// Keys that transformers reads of every model type, and of this one in addition (hf_config_read.cpp); of_type is empty
// for types whose code was not examined.
struct KeysRead {
    std::span<const std::string_view> of_all, of_type;
};
KeysRead keys_read(std::string_view model_type);
// Another key changes nothing there, unless the model brings code of its own (auto_map). True for any key of a type
// whose code was not examined.
bool transformers_reads(std::string_view model_type, std::string_view key);

}  // namespace windlass
