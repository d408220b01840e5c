// key_advice.h: what to write here instead of a key of another tool.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/config.h"

namespace windlass {

// Advice for a key that Windlass does not have. A setting is "key: value"; "{value}" is an example, and gives way to
// what was written where the key takes that.
struct KeyAdvice {
    std::string_view key;
    std::string_view setting = "";      // the first thing to write; empty: see `command`
    std::string_view and_setting = "";  // and the second
    std::string_view why = "";
    std::string_view command = "";  // what does the job; empty, without a setting too: the key can be left out
};

std::span<const KeyAdvice> key_advices();
// The advice for this name, '-' read as '_'; nullptr when there is none.
const KeyAdvice* find_key_advice(std::string_view name);
// What to type, as people type it in that place: "device_memory: 20GiB", "--device-memory 20GiB".
std::string typed_advice(const KeyAdvice& advice, const ConfigEntry& entry);
// The key that the advice sets; empty where it sets none.
std::string_view advised_key(const KeyAdvice& advice);

}  // namespace windlass
