#include "ui/page_files.h"

#include <algorithm>

#include "ui/page_texts.h"

namespace windlass {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8", kCss = "text/css; charset=utf-8",
                           kScript = "text/javascript; charset=utf-8";

std::optional<PageFile> file_of(std::span<const EmbeddedText> texts, std::string_view name, std::string_view type) {
    const auto found = std::ranges::find(texts, name, &EmbeddedText::name);
    if (found == texts.end()) return std::nullopt;
    return PageFile{type, found->text};
}

}  // namespace

std::optional<PageFile> page_file(std::string_view path) {
    if (path == "/") return file_of(page_documents(), "index", kHtml);
    if (path == "/chart.js") return file_of(chart_script(), "chart.min", kScript);
    const size_t dot = path.rfind('.');
    if (!path.starts_with('/') || dot == path.npos) return std::nullopt;
    const std::string_view name = path.substr(1, dot - 1), suffix = path.substr(dot);
    if (suffix == ".css") return file_of(page_styles(), name, kCss);
    if (suffix == ".js") return file_of(page_scripts(), name, kScript);
    return std::nullopt;
}

}  // namespace windlass
