// file_lock.h: one process at a time, on any file system.
//
// A lock is flock(2) where the file system has it. NFS without its lock service, Lustre as it is mounted by default and
// some FUSE file systems do not: there it is an open file description lock of fcntl(2), and where that is refused too,
// a file OWNER next to the locked one, which is made exclusively and names its process. Only the errors that mean
// another holder count as one. Each lower kind is warned of, once for each folder.
// The kernel frees the first two when the process ends. An owner file is taken over if it names a process of this
// kernel, and of this namespace of processes, that is gone; else nothing here can know, and a user has to decide.
#pragma once

#include <fcntl.h>

#include <memory>
#include <optional>
#include <string>

#include "base/file.h"

namespace windlass {

// Shared by readers; with an owner file, a reader only checks that no process holds the lock.
enum class LockUse { alone, shared };

// The system calls, for tests. Each returns 0 or an errno.
struct LockCalls {
    int (*flock)(int descriptor, int operation);
    int (*fcntl)(int descriptor, int command, struct flock* range);
};
extern const LockCalls kSystemLocks;

// Whether a lock that failed so is held by another process; any other error is about the file system.
bool means_locked(int error_number);

class FileLock {
  public:
    FileLock(FileLock&& other) noexcept = default;
    FileLock& operator=(FileLock&&) = delete;
    ~FileLock();

    const File& file() const { return *file_; }

  private:
    friend struct LockAttempt try_lock(FileSystem&, std::unique_ptr<File>, LockUse, const LockCalls&);
    FileLock(FileSystem& files, std::unique_ptr<File> file) : files_(&files), file_(std::move(file)) {}

    FileSystem* files_;
    std::unique_ptr<File> file_;
    std::string owner_path_, owner_text_;  // of an owner file; empty without one
};

struct LockAttempt {
    std::optional<FileLock> lock;  // nothing: another process holds it
    std::string holder;            // "another process", "process 4711 on node7, which may be over"
    std::string owner_path;        // of a holder that cannot be seen from here: the file that only a user can judge
};

inline constexpr const char* kLockOwnerSuffix = ".owner";

// Takes the lock of an open file, or says who has it; never waits. A file that is none of the kernel's is not locked.
LockAttempt try_lock(FileSystem& files, std::unique_ptr<File> file, LockUse use, const LockCalls& calls = kSystemLocks);

}  // namespace windlass
