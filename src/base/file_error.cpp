#include "base/file_error.h"

#include <cerrno>
#include <filesystem>

#include "base/units.h"

namespace windlass {
namespace {

std::string_view advice(int error_number) {
    switch (error_number) {
        case EACCES:
        case EPERM:
            return "Try: check the owner and the permissions of the file and of its folders";
        case EROFS:
            return "Try: a path on a file system that is not mounted read-only";
        case ENOSPC:
        case EDQUOT:
            return "Try: free some space, or choose a path on another disk";
        case EMFILE:
        case ENFILE:
            return "Try: raise the limit on open files (ulimit -n)";
        case ELOOP:
            return "Try: remove the link; nothing is written through one";
        case EFBIG:
            return "Try: raise the limit on file sizes (ulimit -f), or another file system";
        default:
            return "";
    }
}

}  // namespace

MachineError file_error(std::string_view call, std::string_view path, int error_number) {
    return MachineError(call, path, error_number, advice(error_number));
}

UserError end_of_file_error(std::string_view path, int64_t file_bytes, int64_t offset, int64_t bytes) {
    return UserError(ExitCode::storage, path, "ends at byte {}, but {} bytes at offset {} are needed", file_bytes,
                     bytes, offset);
}

MachineError no_space_error(std::string_view call, std::string_view path, int64_t needed, int64_t free) {
    return MachineError(
        call, path, ENOSPC,
        fmt::format("{} are needed, {} are free. {}", format_bytes(needed), format_bytes(free), advice(ENOSPC)));
}

std::string parent_folder(std::string_view path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

std::string path_in(std::string_view folder, std::string_view name) {
    return fmt::format("{}/{}", folder, name);
}

}  // namespace windlass
