// recognise.h: files of other programs where a configuration is expected, known by their keys.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/config.h"

namespace windlass {

// Throws UserError(usage) for a file that is no configuration but a model's, an adapter's or DeepSpeed's, with what
// reads it. `names`: its keys.
void refuse_other_kinds(std::string_view path, std::span<const std::string_view> names);

// The same, and for a training file of a tool that `windlass config from` translates, with that command.
void refuse_foreign_config(const std::string& path, std::span<const ConfigEntry> entries);

// For a name that ends as files of rows or of weights do.
void refuse_foreign_ending(const std::string& path);

}  // namespace windlass
