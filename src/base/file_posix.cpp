// The real file system: thin, complete calls. A short transfer or EINTR is a normal event and is continued.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/file_error.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr mode_t kNewFileMode = 0666;  // cut by the umask

// Calls until it is not interrupted; a negative result has errno set.
template <typename Call>
auto uninterrupted(Call call) {
    for (;;) {
        const auto result = call();
        if (result >= 0 || errno != EINTR) return result;
    }
}

// The file system, or a layer below it, does not have this call.
bool is_unsupported(int error_number) {
    return error_number == EOPNOTSUPP || error_number == ENOSYS;
}

FileStatus to_status(const struct stat& raw) {
    return {.bytes = raw.st_size,
            .is_folder = S_ISDIR(raw.st_mode),
            .is_regular = S_ISREG(raw.st_mode),
            .modified_ns = int64_t{raw.st_mtim.tv_sec} * 1'000'000'000 + raw.st_mtim.tv_nsec,
            .device = raw.st_dev,
            .inode = raw.st_ino};
}

int64_t free_space(const std::string& path) {
    struct statvfs raw {};
    if (uninterrupted([&] { return ::statvfs(path.c_str(), &raw); }) != 0) throw file_error("statvfs", path, errno);
    return static_cast<int64_t>(raw.f_bavail) * static_cast<int64_t>(raw.f_frsize);
}

class PosixFile final : public File {
  public:
    PosixFile(std::string path, int descriptor, bool direct)
        : path_(std::move(path)), descriptor_(descriptor), direct_(direct) {}
    PosixFile(const PosixFile&) = delete;
    PosixFile& operator=(const PosixFile&) = delete;
    ~PosixFile() override { ::close(descriptor_); }

    const std::string& path() const override { return path_; }
    int descriptor() const override { return descriptor_; }
    bool direct() const override { return direct_; }

    int64_t size() override {
        struct stat raw {};
        if (::fstat(descriptor_, &raw) != 0) throw file_error("fstat", path_, errno);
        return raw.st_size;
    }

    void read_at(std::span<std::byte> into, int64_t offset) override {
        const auto bytes = static_cast<int64_t>(into.size());
        int64_t done = 0;
        while (done < bytes) {
            const ssize_t got = uninterrupted([&] {
                return ::pread(descriptor_, into.data() + done, static_cast<size_t>(bytes - done), offset + done);
            });
            if (got < 0) throw file_error("pread", path_, errno);
            done += got;
            // Checked here, because a direct read continued from an unaligned end would fail as an invalid argument.
            if (done < bytes && offset + done >= size()) throw end_of_file_error(path_, size(), offset, bytes);
        }
    }

    void write_at(std::span<const std::byte> from, int64_t offset) override {
        while (!from.empty()) {
            const ssize_t put = uninterrupted([&] { return ::pwrite(descriptor_, from.data(), from.size(), offset); });
            if (put <= 0) throw file_error("pwrite", path_, put < 0 ? errno : EIO);
            from = from.subspan(static_cast<size_t>(put));
            offset += put;
        }
    }

    void preallocate(int64_t bytes) override {
        const int64_t before = size();
        if (bytes <= before) return truncate(bytes);
        // Asked first, so that a reservation that cannot succeed does not fill the disk for a moment.
        if (bytes - before > free_space(path_)) throw no_space(bytes - before);
        if (uninterrupted([&] { return ::fallocate(descriptor_, 0, 0, bytes); }) == 0) return;
        const int error = errno;
        if (is_unsupported(error)) {
            log_warning("{}: the file system cannot reserve space; a full disk will be noticed late", path_);
            return truncate(bytes);
        }
        truncate(before);  // gives back what a failed reservation took
        throw error == ENOSPC ? no_space(bytes - before) : file_error("fallocate", path_, error);
    }

    void truncate(int64_t bytes) override {
        if (uninterrupted([&] { return ::ftruncate(descriptor_, bytes); }) != 0)
            throw file_error("ftruncate", path_, errno);
    }

    void sync() override {
        if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) throw file_error("fsync", path_, errno);
    }

  private:
    MachineError no_space(int64_t needed) const {
        return no_space_error("fallocate", path_, needed, free_space(path_));
    }

    std::string path_;
    int descriptor_;
    bool direct_;
};

// Nothing is written through a link: who may write into a folder of ours could plant one to any file.
int open_flags(OpenMode mode) {
    switch (mode) {
        case OpenMode::read:
            return O_RDONLY;
        case OpenMode::create:
            return O_RDWR | O_NOFOLLOW | O_CREAT | O_TRUNC;
        case OpenMode::create_new:
            return O_RDWR | O_NOFOLLOW | O_CREAT | O_EXCL;
        case OpenMode::update:
            return O_RDWR | O_NOFOLLOW;
        case OpenMode::append:
            return O_WRONLY | O_NOFOLLOW | O_CREAT | O_APPEND;
    }
    return O_RDONLY;
}

const char* kind_of(mode_t mode) {
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

// Opening a pipe waits for its other end, and a device may be endless: so files are opened without waiting, then
// checked. Transfers wait again: io_uring gives up on files that do not.
void check_regular(const PosixFile& file, OpenMode mode, int flags) {
    struct stat raw {};
    if (::fstat(file.descriptor(), &raw) != 0) throw file_error("fstat", file.path(), errno);
    const bool is_output = mode == OpenMode::create || mode == OpenMode::append;
    if (S_ISDIR(raw.st_mode))
        throw UserError(ExitCode::storage, file.path(), "is a folder, expected a file").hint("a file in it");
    const bool is_taken = S_ISREG(raw.st_mode) || (is_output && S_ISCHR(raw.st_mode));
    if (is_taken) {
        if (::fcntl(file.descriptor(), F_SETFL, flags) != 0) throw file_error("fcntl", file.path(), errno);
        return;
    }
    throw UserError(ExitCode::storage, file.path(), "is {}, expected a regular file", kind_of(raw.st_mode))
        .hint("copy what it holds to a file, and name that");
}

class PosixFiles final : public FileSystem {
  public:
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        const int flags = open_flags(options.mode) | O_CLOEXEC;
        const auto attempt = [&](int extra) {
            return uninterrupted([&] { return ::open(path.c_str(), flags | O_NONBLOCK | extra, kNewFileMode); });
        };
        int descriptor = attempt(options.direct ? O_DIRECT : 0);
        bool direct = options.direct && descriptor >= 0;
        if (descriptor < 0 && options.direct && (errno == EINVAL || is_unsupported(errno))) {
            // Linux makes the file before it refuses O_DIRECT, so the second attempt must accept it.
            const int made = options.mode == OpenMode::create_new ? O_EXCL : 0;
            descriptor =
                uninterrupted([&] { return ::open(path.c_str(), (flags & ~made) | O_NONBLOCK, kNewFileMode); });
        }
        if (descriptor < 0) throw file_error("open", path, errno);
        auto file = std::make_unique<PosixFile>(path, descriptor, direct);
        check_regular(*file, options.mode, flags | (direct ? O_DIRECT : 0));
        return file;
    }

    bool exists(const std::string& path) override {
        struct stat raw {};
        if (::stat(path.c_str(), &raw) == 0) return true;
        if (errno == ENOENT || errno == ENOTDIR) return false;
        throw file_error("stat", path, errno);
    }

    FileStatus status(const std::string& path) override {
        struct stat raw {};
        if (::stat(path.c_str(), &raw) != 0) throw file_error("stat", path, errno);
        return to_status(raw);
    }

    std::string resolve(const std::string& path) override {
        std::error_code error;
        const std::filesystem::path resolved = std::filesystem::canonical(path, error);
        if (error) throw file_error("realpath", path, error.value());
        return resolved.string();
    }

    std::vector<std::string> list(const std::string& folder) override {
        std::error_code error;
        std::vector<std::string> names;
        for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
            names.push_back(at->path().filename().string());
        if (error) throw file_error("list folder", folder, error.value());
        std::sort(names.begin(), names.end());
        return names;
    }

    void make_folders(const std::string& path) override {
        std::error_code error;
        std::filesystem::create_directories(path, error);
        if (error) throw file_error("mkdir", path, error.value());
    }

    void rename(const std::string& from, const std::string& to) override {
        if (::rename(from.c_str(), to.c_str()) != 0) throw file_error("rename to " + to, from, errno);
    }

    void remove_file(const std::string& path) override {
        if (::unlink(path.c_str()) != 0) throw file_error("unlink", path, errno);
    }

    void remove_tree(const std::string& path) override {
        std::error_code error;
        std::filesystem::remove_all(path, error);
        if (error) throw file_error("remove", path, error.value());
    }

    void sync_folder(const std::string& path) override {
        const int descriptor = uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
        if (descriptor < 0) throw file_error("open", path, errno);
        const PosixFile folder(path, descriptor, false);
        // Some file systems keep folders durable by themselves and refuse the call.
        if (uninterrupted([&] { return ::fsync(descriptor); }) != 0 && errno != EINVAL && errno != EBADF &&
            !is_unsupported(errno))
            throw file_error("fsync", path, errno);
    }

    int64_t free_bytes(const std::string& path) override { return free_space(path); }

    std::unique_ptr<FileQueue> make_queue(QueueKind kind, int depth) override { return make_file_queue(kind, depth); }
};

}  // namespace

FileSystem& real_files() {
    static PosixFiles files;
    return files;
}

}  // namespace windlass
