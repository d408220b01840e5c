// preset.h: the settings of a paper, as one small JSON file: presets/*.json are embedded, users may write their own.
//
//   {"name": "fuyou", "paper": "who, what, where", "keys": {"policy": "three_tier", ...}}
//
// Its keys are those of a configuration, and lie below everything else that a user says (config/config.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/embedded_text.h"
#include "config/config.h"

namespace windlass {

struct Preset {
    std::string name;
    std::string paper;
    std::vector<ConfigEntry> keys;  // `where` is the preset's name or file; the keys' names are not checked yet
};

inline constexpr int64_t kPresetBytesMax = 64 * 1024;

// The embedded presets, sorted by name.
std::span<const EmbeddedText> preset_texts();

// Throws UserError(usage) naming `where` for what is no preset.
Preset parse_preset(std::string_view text, std::string_view where);
// The preset of this name, else the file of this path. Throws UserError(usage) naming the presets when it is neither.
Preset find_preset(FileSystem& files, const std::string& name_or_path);

}  // namespace windlass
