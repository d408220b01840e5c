#include "format/writing_lock.h"

#include "base/error.h"

namespace windlass {
namespace {

// Whether the path still names the file that is open: its writer may have renamed it before we had the lock.
bool is_still_there(FileSystem& files, const FileLock& lock, const std::string& path) {
    if (lock.file().descriptor() < 0) return true;  // no file of the kernel
    const FileStatus opened = files.status(fmt::format("/proc/self/fd/{}", lock.file().descriptor()));
    return files.exists(path) && files.status(path).is_same(opened);
}

}  // namespace

FileLock lock_for_writing(FileSystem& files, const std::string& path, const std::string& target) {
    LockAttempt attempt = try_lock(files, files.open(path, {.mode = OpenMode::append}), LockUse::alone);
    if (!attempt.lock || !is_still_there(files, *attempt.lock, path))
        throw UserError(ExitCode::storage, target, "another process writes it now")
            .hint("the same command when it has ended");
    return std::move(*attempt.lock);
}

}  // namespace windlass
