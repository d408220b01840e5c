// log_tap.h: the log's lines for one who passes them on, as events are to a program (base/event_stream.h).
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "base/log.h"

namespace windlass {

// It is given each line after it was written, by the thread that wrote it, and may write lines itself. Not those that a
// quiet program does not write, nor log_told's. One at a time.
class LogTap {
  public:
    using Take = std::function<void(LogLevel level, const std::string& line)>;
    explicit LogTap(Take take);
    ~LogTap();
    LogTap(const LogTap&) = delete;
    LogTap& operator=(const LogTap&) = delete;
};

// As log_info, of what is told in another form too: a tap would tell it twice.
void log_told_line(std::string_view line);
template <typename... Args>
void log_told(fmt::format_string<Args...> format, Args&&... args) {
    log_told_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace windlass
