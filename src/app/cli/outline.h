// outline.h: the command line as plain data, from the parser's verbs and the table of keys: what completions of shells
// and man pages are made from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace windlass {

struct ConfigKey;

// How a flag of a key takes its value: after a '=' alone, if at all; optionally; or always. A number is no file.
enum class FlagValue : uint8_t { after_equals, optional, number, text };

// A flag of a verb's own, or a word without one.
struct FlagOutline {
    std::vector<std::string> names;  // "-q", "--quiet"; empty for a word without a flag
    std::string label;               // as help heads it: "--max-new-tokens N", "model"
    std::string text;
    FlagValue value = FlagValue::text;
    std::vector<std::string> values;  // that are known; others may be taken, too
};

struct VerbOutline {
    std::string name;  // "train", "config from"
    std::vector<FlagOutline> flags, words;
    std::vector<const ConfigKey*> keys;  // of the configuration, that it reads
    bool has_verbs = false;              // its word is a verb of its own
};

struct Outline {
    std::vector<VerbOutline> verbs;   // an outer verb comes before those in it
    std::vector<std::string> topics;  // that `windlass help` takes besides verbs
};

Outline outline_of(const CLI::App& app);

// "--max-new-tokens N", "-h, --help", "model".
std::string flag_label(const CLI::Option& option);

// The values of a key that are known, and how its flag takes them.
std::vector<std::string> values_of_key(const ConfigKey& key);
FlagValue flag_value_of_key(const ConfigKey& key);
// Names that a text may be, among others: of presets, tasks, machines, adapters. Empty for other keys and flags.
std::vector<std::string> suggested_values(std::string_view name);

}  // namespace windlass
