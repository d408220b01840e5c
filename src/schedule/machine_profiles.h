// machine_profiles.h: machines (presets/machines/) that are compiled in, so that one file is all a user needs.
#pragma once

#include <span>
#include <string>

#include "base/embedded_text.h"
#include "schedule/machine.h"

namespace windlass {

// Sorted by name; machine_text.h reads them.
std::span<const EmbeddedText> machine_profiles();

// The profile of this name, else the file of this path. Throws UserError(usage) naming the profiles when it is neither,
// and what parse_machine throws.
Machine find_machine(FileSystem& files, const std::string& name_or_path);

}  // namespace windlass
