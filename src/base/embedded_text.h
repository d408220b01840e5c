// embedded_text.h: text files that were compiled in (cmake/embedded_texts.cmake), which users name as they name files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

struct EmbeddedText {
    std::string_view name;  // of its file, without the suffix
    std::string_view text;
};

// The embedded text of this name, else the file of this path, of at most `max_bytes`. Throws UserError(usage) naming
// the nearest of the embedded ones, or all of them, if it is neither; `noun`: what one of them is called.
std::string read_embedded(FileSystem& files, std::span<const EmbeddedText> texts, const std::string& name_or_path,
                          int64_t max_bytes, std::string_view noun);

}  // namespace windlass
