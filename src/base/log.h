// log.h: one line per fact, to stderr and, once a run has a folder, to its log.txt.
//
// Thread-safe. stdout is never written: it belongs to results. Control characters are escaped (printable.h).
// stderr that cannot be written is no error. A write waits for its reader, and a pipe without one ends the program, as
// usual; a run, which has more to lose, calls outlive_readers().
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace windlass {

enum class LogLevel { error, warning, info };

void log_line(LogLevel level, std::string_view line);
// More of the error before, on a line of its own.
void log_more(std::string_view line);
void set_log_level(LogLevel most_verbose);
// From now on a stream without a reader neither ends nor stops the program: SIGPIPE is ignored, and lines that stderr
// does not take within a second are in the log's file alone, those from before there was one too (the first 64 KiB).
// When stderr takes lines again, it says how many it missed.
void outlive_readers();
bool outlives_readers();

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace windlass
