// config_values.h: one value of the configuration: text -> member -> text.
#pragma once

#include <string>

#include "config/config.h"
#include "config/config_keys.h"

namespace windlass {

// Puts an entry's value into its member. Returns what is wrong with it, empty when nothing is:
// "\"abc\" is not a number".
std::string assign_config_value(const ConfigKey& key, const ConfigEntry& entry, Config& config);

}  // namespace windlass
