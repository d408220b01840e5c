// config_schema.h: the keys of the configuration as JSON Schema, by which editors complete and check run.yaml.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "config/config_keys.h"

namespace windlass {

// Values that a key without choices may have, among others: names of presets. Empty for most keys.
using SuggestedValues = std::function<std::vector<std::string>(std::string_view key)>;

// Draft 2020-12. It accepts nothing but what the program reads, in one spelling of each value: true, not yes, and no
// number in quotes. Keys have more words, which editors ignore: group, aliases, verbs (those that read it), and
// the format "path" where names of files are among the values.
Json config_schema(const SuggestedValues& suggested);

// A key's value as the schema types it.
Json config_value_json(const ConfigKey& key, const Config& config);
// The keys whose values differ from their defaults, with these.
Json changed_settings_json(const Config& config);

}  // namespace windlass
