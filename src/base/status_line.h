// status_line.h: one line below the log on a terminal at stderr, redrawn in place; a line of the log takes it away
// first.
#pragma once

#include <string_view>

namespace windlass {

// Not where only warnings are printed (set_log_level).
void draw_status(std::string_view text, bool color);
void clear_status();

}  // namespace windlass
