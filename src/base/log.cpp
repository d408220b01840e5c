#include "base/log.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/file_error.h"
#include "base/printable.h"
#include "base/status_line.h"

namespace windlass {
namespace {

struct LogState {
    std::mutex mutex;
    LogLevel most_verbose = LogLevel::info;
    std::FILE* file = nullptr;
    bool has_status = false;  // below the last line, on a terminal
};

LogState& state() {
    static LogState instance;
    return instance;
}

const char* prefix(LogLevel level) {
    switch (level) {
        case LogLevel::error:
            return "error: ";
        case LogLevel::warning:
            return "warning: ";
        case LogLevel::info:
            return "";
    }
    return "";
}

void take_status_away(LogState& log) {
    if (std::exchange(log.has_status, false)) std::fputs("\r\x1b[K", stderr);
}

}  // namespace

void draw_status(std::string_view text, bool color) {
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (log.most_verbose < LogLevel::info) return;
    fmt::print(stderr, "\r\x1b[K{}{}{}", color ? "\x1b[36m" : "", printable(text), color ? "\x1b[0m" : "");
    std::fflush(stderr);
    log.has_status = true;
}

void clear_status() {
    const std::lock_guard lock(state().mutex);
    take_status_away(state());
    std::fflush(stderr);
}

namespace {

void write_line(LogLevel level, std::string_view label, std::string_view line) {
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (level > log.most_verbose) return;
    const std::string text = fmt::format("{}{}\n", label, printable(line));
    take_status_away(log);
    std::fwrite(text.data(), 1, text.size(), stderr);
    if (log.file != nullptr) {
        std::fwrite(text.data(), 1, text.size(), log.file);
        std::fflush(log.file);
    }
}

}  // namespace

void log_line(LogLevel level, std::string_view line) {
    write_line(level, prefix(level), line);
}

void log_more(std::string_view line) {
    write_line(LogLevel::error, "", line);
}

void set_log_level(LogLevel most_verbose) {
    const std::lock_guard lock(state().mutex);
    state().most_verbose = most_verbose;
}

void set_log_file(std::string_view path) {
    const std::lock_guard lock(state().mutex);
    if (state().file != nullptr) std::fclose(state().file);
    state().file = nullptr;
    if (path.empty()) return;
    constexpr mode_t kNewFileMode = 0666;  // cut by the umask
    // Not through a link: who may write into the run's folder could plant one to any file.
    const int descriptor =
        ::open(std::string(path).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kNewFileMode);
    if (descriptor < 0) throw file_error("open for appending", path, errno);
    state().file = ::fdopen(descriptor, "a");
    if (state().file == nullptr) throw MachineError("fdopen", path, errno);
}

}  // namespace windlass
