// config_help.h: the keys of the configuration, as a verb's help shows them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace windlass {

struct ConfigKey;

// What a key means, with its unit, its choices and its default.
std::string config_key_text(const ConfigKey& key);

// A text in lines of at most `width` characters, broken at spaces; a longer word is a line of its own.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// The few keys that matter most to a verb, a line or two each; empty for a verb without configuration.
std::string brief_config_help(std::string_view verb, int columns);
// All keys that the verb reads, in groups, with defaults, and the presets.
std::string whole_config_help(std::string_view verb, int columns);

}  // namespace windlass
