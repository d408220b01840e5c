// translate.h: training files of LLaMA-Factory, axolotl and transformers as configurations of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

struct DroppedKey {
    std::string key;     // of the file
    std::string reason;  // or what to write instead
};

struct Translation {
    std::string_view tool;  // "LLaMA-Factory", "axolotl", "transformers"
    std::string yaml;       // reads back as a configuration; a remark marks each value whose meaning changed
    std::vector<DroppedKey> dropped;
};

// Which tool's it is, its keys say. UserError(usage) for a file of none of them, and for what is no YAML.
Translation translate_config(FileSystem& files, const std::string& path);

}  // namespace windlass
