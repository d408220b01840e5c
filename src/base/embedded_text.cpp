#include "base/embedded_text.h"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"
#include "base/nearest.h"

namespace windlass {

std::string read_embedded(FileSystem& files, std::span<const EmbeddedText> texts, const std::string& name_or_path,
                          int64_t max_bytes, std::string_view noun) {
    std::vector<std::string_view> names;
    for (const EmbeddedText& each : texts) {
        if (each.name == name_or_path) return std::string(each.text);
        names.push_back(each.name);
    }
    if (files.exists(name_or_path)) return read_text(files, name_or_path, max_bytes);
    const std::string_view near = nearest_name(name_or_path, names);
    throw UserError(ExitCode::usage, name_or_path, "there is no such file, and no {} of that name", noun)
        .hint(near.empty() ? fmt::format("{}", fmt::join(names, ", ")) : std::string(near));
}

}  // namespace windlass
