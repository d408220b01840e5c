// page_files.h: the files of the page, which are compiled in.
#pragma once

#include <optional>
#include <string_view>

namespace windlass {

struct PageFile {
    std::string_view type, text;
};

// "/", "/NAME.css", "/NAME.js"; "/chart.js" is Chart.js.
std::optional<PageFile> page_file(std::string_view path);

}  // namespace windlass
