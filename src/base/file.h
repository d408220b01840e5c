// file.h: the one door to the file system.
//
// Every call that touches a file goes through a FileSystem, so that a test can make any of them fail, tear or
// vanish. Code gets the real one from real_files(); fault tests pass a FaultFiles (tests/fault_files.h).
// Errors are MachineError(call, path, errno). Owners are move-only and close on destruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

enum class OpenMode {
    read,        // must exist
    create,      // read and write; made new, or cut to zero bytes
    create_new,  // read and write; an existing file is an error (EEXIST)
    update,      // read and write; must exist
    append,      // write at the end; made when absent
};

struct OpenOptions {
    OpenMode mode = OpenMode::read;
    bool direct = false;  // O_DIRECT: offsets, sizes and buffers in multiples of kDirectAlignment; falls back to
                          // buffered I/O where the file system refuses it (File::direct() tells)
};

inline constexpr int64_t kDirectAlignment = 4096;

class File {
  public:
    virtual ~File() = default;
    virtual const std::string& path() const = 0;
    virtual int descriptor() const = 0;  // -1 if it is no file of the kernel
    virtual bool direct() const = 0;
    virtual int64_t size() = 0;
    // Read or write exactly this many bytes at an offset; short transfers are continued. Reading past the end is
    // UserError(storage, "... ends at byte ...").
    virtual void read_at(std::span<std::byte> into, int64_t offset) = 0;
    virtual void write_at(std::span<const std::byte> from, int64_t offset) = 0;
    // Makes the file this long and, when growing, reserves the blocks on disk (ENOSPC now rather than later).
    virtual void preallocate(int64_t bytes) = 0;
    virtual void truncate(int64_t bytes) = 0;
    // Data and metadata are on stable storage when it returns.
    virtual void sync() = 0;
};

class FileQueue;
// automatic: io_uring, or pread threads where the kernel refuses it.
enum class QueueKind { automatic, uring, pread };

struct FileStatus {
    int64_t bytes = 0;
    bool is_folder = false;
    bool is_regular = true;  // neither a folder nor a pipe, a socket or a device
    int64_t modified_ns = 0;
    uint64_t device = 0, inode = 0;  // which file or folder it is, however its path is spelt

    bool is_same(const FileStatus& other) const { return device == other.device && inode == other.inode; }
};

class FileSystem {
  public:
    virtual ~FileSystem() = default;
    // What is read, or written in place, must be a regular file: a pipe or a device is UserError(storage), at once.
    virtual std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) = 0;
    virtual bool exists(const std::string& path) = 0;
    virtual FileStatus status(const std::string& path) = 0;  // follows links
    // The absolute path of an existing file or folder, without links, "." and "..".
    virtual std::string resolve(const std::string& path) = 0;
    virtual std::vector<std::string> list(const std::string& folder) = 0;  // names, sorted bytewise
    virtual void make_folders(const std::string& path) = 0;
    virtual void rename(const std::string& from, const std::string& to) = 0;
    virtual void remove_file(const std::string& path) = 0;
    virtual void remove_tree(const std::string& path) = 0;  // nothing there is fine
    virtual void sync_folder(const std::string& path) = 0;
    virtual int64_t free_bytes(const std::string& path) = 0;  // of the file system that holds this existing path
    // Asynchronous transfers on the files of this file system (see make_file_queue below).
    virtual std::unique_ptr<FileQueue> make_queue(QueueKind kind, int depth) = 0;
};

FileSystem& real_files();

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of UTF-8

// The whole file without a byte order mark. It may not exceed max_bytes (UserError naming both sizes).
std::string read_text(FileSystem& files, const std::string& path, int64_t max_bytes);
// Write to a temporary file, sync, rename, sync the folder: readers see the old file or the whole new one. The
// temporary file, on the same file system, is path + ".tmp" unless one is named; a kill may leave it there.
void write_text_atomic(FileSystem& files, const std::string& path, std::string_view text,
                       const std::string& temporary = "");

// ---- asynchronous transfers ----

enum class FileVerb { read, write };

struct FileRequest {
    FileVerb verb = FileVerb::read;
    File* file = nullptr;
    int64_t offset = 0;
    std::span<std::byte> buffer;  // stays valid until the request is reaped
    uint64_t tag = 0;             // handed back in the result
};

struct FileResult {
    uint64_t tag = 0;
    int error_number = 0;  // 0: the whole buffer was transferred; ENODATA: the file ends before the read does
    std::string message;   // when it failed: call, path and errno
};

// At most depth() transfers run at a time. One owner thread submits and reaps. Short transfers are continued
// inside. Destruction waits for what is running. To drain: while (queue.in_flight() > 0) use(queue.reap());
class FileQueue {
  public:
    virtual ~FileQueue() = default;
    virtual std::string_view name() const = 0;  // "io_uring" | "pread" | ...
    virtual int depth() const = 0;
    // Requests that have not been reaped: running, or finished with their result kept.
    virtual int in_flight() const = 0;
    // Starts a request; blocks for a completion first when depth() are running (its result is kept for reap()).
    virtual void submit(const FileRequest& request) = 0;
    // Returns at least one result when anything is in flight (waits for it), else an empty list.
    virtual std::vector<FileResult> reap() = 0;
};

// `automatic` takes io_uring and falls back to pread threads, with one log line, where the kernel refuses it.
// Asking for uring by name where it is refused throws MachineError.
std::unique_ptr<FileQueue> make_file_queue(QueueKind kind, int depth);

// Largest request that movers should submit: bigger transfers are cut into pieces of this size.
inline constexpr int64_t kRequestBytesMax = int64_t{2} << 20;

// ---- memory for transfers and arenas ----

// Private anonymous memory, zero, 2 MiB aligned; huge pages are asked for from 2 MiB on: a direct transfer from small
// ones is hundreds of segments, and slow. Touched on request, so that later timings and limits see it. Throws
// UserError(no_fit) when the system refuses it.
class HugeBuffer {
  public:
    HugeBuffer() = default;
    HugeBuffer(int64_t bytes, bool touch);
    HugeBuffer(HugeBuffer&& other) noexcept;
    HugeBuffer& operator=(HugeBuffer&& other) noexcept;
    ~HugeBuffer();
    std::byte* data() const { return data_; }
    int64_t size() const { return size_; }
    std::span<std::byte> span() const { return {data_, static_cast<size_t>(size_)}; }

  private:
    std::byte* data_ = nullptr;
    int64_t size_ = 0;    // as asked
    int64_t mapped_ = 0;  // as mapped, for the release
};

}  // namespace windlass
