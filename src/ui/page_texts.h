// page_texts.h: what the build embeds (CMakeLists.txt): page/*.html, *.css and *.js, and Debian's Chart.js.
#pragma once

#include <span>

#include "base/embedded_text.h"

namespace windlass {

std::span<const EmbeddedText> page_documents();
std::span<const EmbeddedText> page_styles();
std::span<const EmbeddedText> page_scripts();
std::span<const EmbeddedText> chart_script();

}  // namespace windlass
