// config_layers.h: one layer of settings (a file, the flags, ...) put over those below it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace windlass {

// Sets what the entries say; what is wrong with them goes to `problems`, a line each. `meant`: keys that an entry with
// a problem was probably to set.
void apply_layer(const std::vector<ConfigEntry>& layer, ReadConfig& read, std::vector<std::string>& problems,
                 std::set<std::string_view>& meant);

}  // namespace windlass
