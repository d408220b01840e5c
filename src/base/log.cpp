#include "base/log.h"

#include <fcntl.h>

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log_file.h"
#include "base/log_tap.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "base/status_line.h"

namespace windlass {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(1000);
constexpr size_t kEarlyBytesMax = size_t{64} << 10;

struct LogState {
    std::mutex mutex;
    LogLevel most_verbose = LogLevel::info;
    std::FILE* file = nullptr;
    bool has_status = false;  // below the last line, on a terminal

    std::optional<BoundedOutput> bounded;  // stderr of a program that outlives its readers
    int64_t missed_lines = 0;              // that stderr did not take, since the last that it took
    bool is_cut = false;                   // the last that it took is not whole
    bool has_log_file = false;             // a LogFile, which may not be open yet
    std::string early;                     // until it is
    LogTap::Take tap;
};

LogState& state() {
    static LogState* const instance = new LogState;  // never destroyed: threads outlive main
    return *instance;
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

constexpr std::string_view kClearLine = "\r\x1b[K";

// What is drawn may be missed.
void draw(LogState& log, std::string_view text) {
    if (!log.bounded) {
        std::fwrite(text.data(), 1, text.size(), stderr);
        std::fflush(stderr);
    } else if (log.missed_lines == 0) {
        log.bounded->write(text, std::chrono::milliseconds(0));
    }
}

void write_to_file(LogState& log, std::string_view text) {
    if (log.file == nullptr) return;
    std::fwrite(text.data(), 1, text.size(), log.file);
    std::fflush(log.file);
}

// The lines up to this one, which ends with a line feed, are in the file; returns what is to be written there first.
std::string write_bounded(LogState& log, std::string_view text) {
    const bool missed_before = log.missed_lines > 0;
    std::string whole = log.is_cut ? "\n" : "";
    if (missed_before)
        whole += fmt::format("... {} lines were not read here; log.txt of the run has them\n", log.missed_lines);
    whole += text;
    // After one that was missed no other waits: a reader that comes back finds room.
    const BoundedOutput::Written done =
        log.bounded->write(whole, missed_before ? std::chrono::milliseconds(0) : kPatience);
    if (done.error_number == 0) {
        log.missed_lines = 0;
        log.is_cut = false;
        return "";
    }
    if (done.bytes > 0) log.is_cut = whole[done.bytes - 1] != '\n';
    ++log.missed_lines;
    if (missed_before) return "";
    return fmt::format("warning: stderr does not take messages ({}); they are in log.txt alone\n",
                       done.error_number == EAGAIN ? "nothing reads them" : std::strerror(done.error_number));
}

}  // namespace

void draw_status(std::string_view text, bool color) {
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (log.most_verbose < LogLevel::info) return;
    draw(log, fmt::format("{}{}{}{}", kClearLine, color ? "\x1b[36m" : "", printable(text), color ? "\x1b[0m" : ""));
    log.has_status = true;
}

void clear_status() {
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (std::exchange(log.has_status, false)) draw(log, kClearLine);
}

namespace {

// Whether the line is of a level that is shown.
bool write_line(LogLevel level, std::string_view label, std::string_view line) {
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (level > log.most_verbose) return false;
    const std::string text = fmt::format("{}{}\n", label, printable(line));
    if (std::exchange(log.has_status, false)) draw(log, kClearLine);
    std::string in_file = text;
    if (log.bounded)
        in_file = write_bounded(log, text) + text;
    else
        std::fwrite(text.data(), 1, text.size(), stderr);
    write_to_file(log, in_file);
    if (log.has_log_file && log.file == nullptr && log.early.size() + in_file.size() <= kEarlyBytesMax)
        log.early += in_file;
    return true;
}

// Not under the lock: what is done with a line may write another one.
void pass_to_tap(LogLevel level, std::string_view line) {
    LogTap::Take tap;
    {
        const std::lock_guard lock(state().mutex);
        tap = state().tap;
    }
    if (tap) tap(level, printable(line));
}

}  // namespace

void log_line(LogLevel level, std::string_view line) {
    if (write_line(level, prefix(level), line)) pass_to_tap(level, line);
}

void log_told_line(std::string_view line) {
    write_line(LogLevel::info, "", line);
}

void log_more(std::string_view line) {
    write_line(LogLevel::error, "", line);
}

void set_log_level(LogLevel most_verbose) {
    const std::lock_guard lock(state().mutex);
    state().most_verbose = most_verbose;
}

LogTap::LogTap(Take take) {
    const std::lock_guard lock(state().mutex);
    WINDLASS_CHECK(!state().tap, "one at a time is given the log's lines");
    state().tap = std::move(take);
}

LogTap::~LogTap() {
    const std::lock_guard lock(state().mutex);
    state().tap = nullptr;
}

LogFile::LogFile() {
    const std::lock_guard lock(state().mutex);
    WINDLASS_CHECK(!state().has_log_file, "one file at a time has the log");
    state().has_log_file = true;
}

void LogFile::open(std::string_view path) {
    constexpr mode_t kNewFileMode = 0666;  // cut by the umask
    // Not through a link: who may write into the run's folder could plant one to any file.
    const int descriptor =
        ::open(std::string(path).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, kNewFileMode);
    if (descriptor < 0) throw file_error("open for appending", path, errno);
    std::FILE* const file = ::fdopen(descriptor, "a");
    if (file == nullptr) throw MachineError("fdopen", path, errno);
    const std::lock_guard lock(state().mutex);
    WINDLASS_CHECK(!is_over_ && state().file == nullptr, "a log file is opened once");
    state().file = file;
    write_to_file(state(), std::exchange(state().early, ""));
}

void LogFile::close() {
    if (std::exchange(is_over_, true)) return;
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (log.file != nullptr) std::fclose(std::exchange(log.file, nullptr));
    log.has_log_file = false;
    log.early.clear();
}

void outlive_readers() {
    std::signal(SIGPIPE, SIG_IGN);
    LogState& log = state();
    const std::lock_guard lock(log.mutex);
    if (!log.bounded) log.bounded.emplace(STDERR_FILENO);
}

bool outlives_readers() {
    const std::lock_guard lock(state().mutex);
    return state().bounded.has_value();
}

}  // namespace windlass
