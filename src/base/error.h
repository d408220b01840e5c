// error.h: how anything in Windlass fails.
//
// UserError     the user can mend it: a file, a key, a budget. Says what, where, got, want and what to try.
// MachineError  the world failed: a system call. Says the call, the file and the errno.
// DeviceError   a device failed. Says the call, the code and its name.
// WINDLASS_CHECK  our own bug: prints and aborts.
//
// Each error carries the exit code with which the program ends when nothing catches it.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace windlass {

enum class ExitCode : int {
    ok = 0,
    internal = 1,
    usage = 2,     // command line or configuration
    no_fit = 3,    // does not fit the budgets
    data = 4,      // training or evaluation rows
    model = 5,     // model folder or tokenizer
    storage = 6,   // files, disks
    gpu = 7,       // device or driver
    diverged = 8,  // non-finite or exploding loss
    interrupted = 130,
    terminated = 143,
};

class Error : public std::exception {
  public:
    Error(ExitCode code, std::string message) : code_(code), message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }
    ExitCode code() const noexcept { return code_; }

  protected:
    ExitCode code_;
    std::string message_;
};

// throw UserError(ExitCode::model, file, "tensor {} has shape {}, expected {}", ...).hint("...")
// `where` names the place: a file, a file and line, a configuration key. Prints as "where: message. Try: hint".
class UserError : public Error {
  public:
    template <typename... Args>
    UserError(ExitCode code, std::string_view where, fmt::format_string<Args...> format, Args&&... args)
        : Error(code, fmt::format("{}: {}", where, fmt::format(format, std::forward<Args>(args)...))) {}

    UserError& hint(std::string_view what_to_do) & {
        message_ += fmt::format(". Try: {}", what_to_do);
        return *this;
    }
    UserError&& hint(std::string_view what_to_do) && { return std::move(hint(what_to_do)); }
    // Another way out, after a hint.
    UserError& or_hint(std::string_view what_to_do) & {
        message_ += fmt::format(", or {}", what_to_do);
        return *this;
    }
};

// throw MachineError("pread", path, errno)
class MachineError : public Error {
  public:
    MachineError(std::string_view call, std::string_view file, int error_number, std::string_view detail = "");
    int error_number() const noexcept { return error_number_; }

  private:
    int error_number_;
};

// throw DeviceError("cudaMalloc", code, "cudaErrorECCUncorrectable"): a device, or its driver, failed at a call.
class DeviceError : public Error {
  public:
    DeviceError(std::string_view call, int code, std::string_view name)
        : Error(ExitCode::gpu, fmt::format("device: {} failed: {} ({})", call, name, code)) {}
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace windlass

// WINDLASS_CHECK(a == b, "slot {} holds {} bytes, the task needs {}", slot, a, b): aborts when it does not hold.
#define WINDLASS_CHECK(condition, ...)                                                                        \
    do {                                                                                                      \
        if (!(condition)) ::windlass::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    } while (false)
