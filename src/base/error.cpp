#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"

namespace windlass {
namespace {

constexpr size_t kPathBytesMax = 4096;  // longer ones lead nowhere

}  // namespace

MachineError::MachineError(std::string_view call, std::string_view file, int error_number, std::string_view detail)
    : Error(ExitCode::storage,
            fmt::format("{}: {} failed: {} (errno {}){}{}", excerpt(file, kPathBytesMax), call,
                        std::strerror(error_number), error_number, detail.empty() ? "" : ". ", detail)),
      error_number_(error_number) {}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
    std::fprintf(stderr, "windlass: internal error at %s:%d: %s: %s\nThis is a bug in Windlass; please report it.\n",
                 file, line, condition, printable(message).c_str());
    std::fflush(stderr);
    std::abort();
}

}  // namespace windlass
